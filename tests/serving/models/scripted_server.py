"""A v2 server whose faults are scripted: loads that fail or hang, and restarts."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.harness.server_process import find_free_port


@dataclass
class ScriptedServer:
    """A server with the repository and statistics extensions, on an address of this machine."""

    address: str
    port: int
    repository: set[str]
    """The models that it can load."""
    loaded: set[str] = field(default_factory=set[str])
    failing: dict[str, str] = field(default_factory=dict[str, str])
    """Models that fail to load, and what it answers."""
    hanging: set[str] = field(default_factory=set[str])
    """Models whose load does not end."""
    answers: bool = True
    """Whether it answers any request at all."""
    requests: dict[str, int] = field(default_factory=dict[str, int])
    busy_ns: dict[str, int] = field(default_factory=dict[str, int])
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Loads and unloads, in order."""
    most_loaded: int = 0
    asked: int = 0
    """How often it was asked for its index."""
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_post("/v2/repository/index", self._answer_index)
        app.router.add_get("/v2/models/stats", self._answer_statistics)
        app.router.add_post("/v2/repository/models/{name}/load", self._load)
        app.router.add_post("/v2/repository/models/{name}/unload", self._unload)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, self.port).start()

    async def stop(self) -> None:
        """End; what was loaded is lost."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self.loaded.clear()
        self.requests.clear()
        self.busy_ns.clear()

    async def _answer_index(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self._hang_if_silent()
        return web.json_response(
            [
                {"name": each, "version": "1", "state": "READY" if each in self.loaded else ""}
                for each in sorted(self.repository)
            ]
        )

    async def _answer_statistics(self, request: web.Request) -> web.Response:
        await self._hang_if_silent()
        statistics = [
            {
                "name": each,
                "version": "1",
                "inference_count": self.requests.get(each, 0),
                "inference_stats": {
                    "success": {
                        "count": self.requests.get(each, 0),
                        "ns": self.busy_ns.get(each, 0),
                    }
                },
            }
            for each in sorted(self.loaded)
        ]
        return web.json_response({"model_stats": statistics})

    async def _load(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.calls.append(("load", name))
        if name in self.hanging:
            await asyncio.sleep(3600)
        if name in self.failing or name not in self.repository:
            reason = self.failing.get(name, f"no model {name!r}")
            return web.json_response({"error": reason}, status=400)
        self.loaded.add(name)
        self.most_loaded = max(self.most_loaded, len(self.loaded))
        return web.json_response({})

    async def _unload(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.calls.append(("unload", name))
        self.loaded.discard(name)
        return web.json_response({})

    async def _hang_if_silent(self) -> None:
        if not self.answers:
            await asyncio.sleep(3600)


def build_servers(count: int, repository: set[str], **fields: Any) -> list[ScriptedServer]:
    """Servers with addresses of their own and the same port."""
    port = find_free_port()
    return [
        ScriptedServer(f"127.0.7.{number + 1}", port, repository, **fields)
        for number in range(count)
    ]
