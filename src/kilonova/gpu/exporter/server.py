"""The HTTP server of the exporter: `/metrics` and `/health`.

A scrape takes the last reading, which is a value, and renders it in a thread. Scrapes at the same
time share one rendering.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable

from kilonova.gpu.exporter.collector import render
from kilonova.gpu.exporter.model import ExporterReading
from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.http_server import format_bind_error
from kilonova.kube.serving.routing import require_method, text_reply
from kilonova.kube.serving.web_server import WebServer

EXPORTER_PORT = 9400
"""That of DCGM's exporter, and of KGWE's."""
_NEXT_PORTS = 10

Read = Callable[[], Awaitable[ExporterReading]]

_log = get_logger(__name__)


def build_exporter_server(
    read: Read, port: int = EXPORTER_PORT, *, host: str = "", tries: int = _NEXT_PORTS
) -> WebServer:
    """The server, bound to the port, or to one of the next where something else has it.

    Where DCGM's exporter runs on a node, it has the port: the metrics are then on the next one, and
    the log reports it. `OSError` if none of them is free; port 0 is any free one.
    """
    scraper = _Scraper(read)
    routes = {
        "/metrics": require_method("GET", scraper.scrape),
        "/health": require_method("GET", _answer_health),
    }
    last = port if port == 0 else min(port + tries, 65535)
    for candidate in range(port, last + 1):
        server = WebServer("gpu exporter", routes, host=host, port=candidate)
        try:
            server.bind()
        except OSError as error:
            if candidate == last or error.errno != errno.EADDRINUSE:
                raise
            _log.warning(
                "exporter port is taken, as by DCGM's exporter: trying the next",
                port=candidate,
                error=format_bind_error(error),
            )
            continue
        return server
    raise AssertionError("unreachable: the last port either binds or raises")


class _Scraper:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._running: dict[str, asyncio.Task[tuple[bytes, str]]] = {}

    async def scrape(self, request: Request) -> Reply:
        accept = request.headers.get("accept", "")
        task = self._running.get(accept)
        if task is None:
            task = asyncio.create_task(self._render(accept))
            self._running[accept] = task
            task.add_done_callback(lambda _: self._running.pop(accept, None))
        body, content_type = await asyncio.shield(task)
        return Reply(200, body, {"content-type": content_type})

    async def _render(self, accept: str) -> tuple[bytes, str]:
        return await asyncio.to_thread(render, await self._read(), accept)


async def _answer_health(request: Request) -> Reply:
    del request
    return text_reply(200, "ok\n")
