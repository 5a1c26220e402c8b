"""Telemetry of a node with a DCGM exporter."""

from collections.abc import Sequence

from msgspec.structs import replace

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.dcgm.exporter import DcgmExporter, Fetch
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import DeviceTelemetry
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)


class DcgmTelemetry:
    """What DCGM measures, with the processes that the backend sees, which DCGM does not name.

    Devices of which the exporter says nothing, and all while it does not answer, are measured by
    the backend. That must not read profiling counters: they have one reader.
    """

    def __init__(self, url: str, backend: GpuBackend, *, fetch: Fetch | None = None) -> None:
        self._backend = backend
        self._exporter = DcgmExporter(url, find_instance=self._find_instance, fetch=fetch)
        self._instances: dict[tuple[str, int], str] = {}
        self._failure = ""

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What is measured now. `GpuError` if the backend does not answer."""
        own = self._backend.read_telemetry()
        self._instances = {
            (device.uuid, each.gpu_instance): each.uuid
            for device in own
            for each in device.instances
        }
        measured = {each.uuid: each for each in self._scrape()}
        return tuple(
            replace(measured[each.uuid], processes=each.processes)
            if each.uuid in measured
            else each
            for each in own
        )

    def _scrape(self) -> Sequence[DeviceTelemetry]:
        try:
            found = self._exporter.read_telemetry()
        except GpuError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                _log.warning("DCGM exporter not read, will retry", error=str(error))
            return ()
        self._failure = ""
        return found

    def _find_instance(self, device: str, gpu_instance: int) -> str:
        return self._instances.get((device, gpu_instance), "")
