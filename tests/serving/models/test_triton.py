"""The model loader and a real Triton."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.http_probe import fetch
from tests.harness.triton_server import TritonServer, write_add_model
from tests.serving.models.loader_cluster import TIMES, loader_cluster

pytestmark = pytest.mark.real_parts


@pytest.fixture(scope="module")
def triton(triton_part: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A server that loads one model by itself; of two others one is broken."""
    folder = tmp_path_factory.mktemp("triton")
    for name in ("own", "other", "broken"):
        write_add_model(folder / "models", name)
    (folder / "models/broken/1/model.py").write_text("raise ValueError('no such weights')\n")
    with TritonServer.start(triton_part, folder, folder / "models", "own") as server:
        yield server


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_triton_loads_and_unloads_what_is_placed(triton: TritonServer, protocol: str) -> None:
    ports = {"http": triton.http_port, "grpc": triton.grpc_port, "metrics": 0}
    if protocol == "grpc":
        ports["http"] = 0
    times = replace(TIMES, request=5.0, away=30.0, load=60.0, unload=60.0)
    async with loader_cluster(times=times) as cluster:
        await cluster.create_service([{"name": "other"}, {"name": "broken"}], ports=ports)
        await cluster.create_server("server-0", "127.0.0.1")
        await cluster.wait_loaded(**{"server-0": ["other", "own"]})
        await cluster.wait_state(
            "server-0",
            lambda states: "no such weights" in states.get("broken", {}).get("message", ""),
        )
        await cluster.declare([])
        await cluster.wait_loaded(**{"server-0": ["own"]})
        await cluster.wait_state("server-0", lambda states: not states)
        assert fetch(f"{triton.url}/v2/models/other/ready")[0] == 400
        assert fetch(f"{triton.url}/v2/models/own/ready")[0] == 200
