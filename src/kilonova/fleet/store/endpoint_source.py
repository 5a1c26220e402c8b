"""Where a process learns the endpoint of the store, also while it runs."""

import asyncio
from pathlib import Path

from kilonova.fleet.store.endpoints import FLAG, parse_endpoints
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import StoreNotUsable

log = get_logger(__name__)

_POLL_SECONDS = 2.0


class EndpointSource:
    """An endpoint as text, or `@FILE`: the file has it, such as a key of a mounted ConfigMap.

    The file is read again and again, by content and not by its time, since mounts replace it by
    links. Content that is invalid is reported, and the last valid endpoint stays in effect.
    """

    def __init__(self, text: str, *, poll_seconds: float = _POLL_SECONDS) -> None:
        self._file = Path(text[1:]).expanduser() if text.startswith("@") else None
        self._endpoint = "" if self._file else text
        self._poll_seconds = poll_seconds
        self._reported = ""

    def read(self) -> str:
        """The endpoint; `StoreNotUsable` if there has been no valid one yet."""
        try:
            endpoint = self._endpoint if self._file is None else _read_file(self._file)
            parse_endpoints(endpoint)
        except StoreNotUsable as error:
            if not self._endpoint or self._file is None:
                raise
            if str(error) != self._reported:
                self._reported = str(error)
                log.warning("endpoint not changed", error=str(error), endpoint=self._endpoint)
            return self._endpoint
        self._endpoint, self._reported = endpoint, ""
        return endpoint

    async def wait_for_change(self, endpoint: str) -> str:
        """Wait until the endpoint is another one, and return it."""
        while True:
            if self._file is None:
                await asyncio.Event().wait()  # a flag does not change
            current = self.read()
            if current != endpoint:
                return current
            await asyncio.sleep(self._poll_seconds)


def _read_file(file: Path) -> str:
    try:
        text = file.read_text()
    except OSError as error:
        problem = f"the file cannot be read: {(error.strerror or str(error)).lower()}"
        fix = "mount the ConfigMap, or correct the path"
        raise StoreNotUsable(f"{FLAG} @{file}", problem, fix) from error
    except UnicodeDecodeError as error:
        raise StoreNotUsable(f"{FLAG} @{file}", "the file is no text", "write one line") from error
    return text.strip()
