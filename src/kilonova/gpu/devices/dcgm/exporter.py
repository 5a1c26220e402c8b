"""A DCGM exporter as a source of telemetry."""

import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException

from kilonova.gpu.devices.dcgm.conversion import FindInstance, convert_samples
from kilonova.gpu.devices.dcgm.samples import parse_samples
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import DeviceTelemetry

Fetch = Callable[[str, float], str]
"""The text at a URL, within some seconds. `TimeoutError`, `OSError`."""

_SECONDS = 5.0
_MAX_BYTES = 32 << 20
_OPERATION = "scrape of the DCGM exporter"


def _no_instance(device: str, gpu_instance: int) -> str:
    del device, gpu_instance
    return ""


class DcgmExporter:
    """Telemetry of the devices of a node, from `http://NODE:9400/metrics`."""

    def __init__(
        self,
        url: str,
        *,
        find_instance: FindInstance = _no_instance,
        fetch: Fetch | None = None,
        timeout: float = _SECONDS,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url}: the URL of a DCGM exporter begins with http:// or https://")
        self._url = url
        self._find_instance = find_instance
        self._fetch = fetch or fetch_text
        self._timeout = timeout

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What DCGM has measured last. `GpuError` if the exporter does not answer."""
        try:
            text = self._fetch(self._url, self._timeout)
            return convert_samples(parse_samples(text), self._find_instance)
        except TimeoutError as error:
            why = f"{self._url}: no answer within {self._timeout:g} s"
            raise GpuError(GpuErrorKind.TIMEOUT, _OPERATION, detail=why) from error
        except (OSError, ValueError, HTTPException) as error:
            kind = GpuErrorKind.UNKNOWN
            raise GpuError(kind, _OPERATION, detail=f"{self._url}: {error}") from error


def fetch_text(url: str, timeout: float) -> str:
    """The text at a URL. `OSError` for an answer that is no success."""
    request = urllib.request.Request(url, headers={"Accept": "text/plain; version=0.0.4"})  # noqa: S310 (the scheme is checked)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            content = answer.read(_MAX_BYTES + 1)
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise error.reason from error
        raise
    if len(content) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES >> 20} MiB")
    return content.decode()
