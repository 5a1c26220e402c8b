"""Programs that do not use the C library are in the pod network like all others."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from kilonova.local.processnode.network import is_supported
from tests.local.processnode.network.network_pods import (
    TIMEOUT,
    NetworkPods,
    line,
    new_address,
    pods,
    route,
)

pytestmark = [
    pytest.mark.skipif(not is_supported(), reason="the kernel has no pod network here"),
    pytest.mark.usefixtures("go_command"),
]


@pytest.fixture(scope="session", name="program")
def _program(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("go") / "dialer"
    source = Path(__file__).with_name("dialer.go")
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "build", "-o", made, source], check=True, env=env, timeout=240)
    return str(made)


@pytest.fixture(name="pods")
async def _pods() -> AsyncGenerator[NetworkPods]:
    async with pods() as made:
        yield made


async def test_go_programs_serve_and_call_in_their_pods(pods: NetworkPods, program: str) -> None:
    one, two = new_address(), new_address()
    for address in (one, two):
        server = await pods.start(address, [program, "serve", ":8080", "served"])
        assert await line(server) == "ready"
    pods.network.set_routes([route("10.96.200.2", 80, (one, 8080), (two, 8080))])
    client = await pods.start(new_address(), [program, "call", "10.96.200.2:80"])
    async with asyncio.timeout(TIMEOUT):
        output, _ = await client.communicate()
    assert output == b"map[served:100]\n"


async def test_go_program_reaches_localhost_of_its_pod(pods: NetworkPods, program: str) -> None:
    address = new_address()
    server = await pods.start(address, [program, "serve", "localhost:8080", "own"])
    assert await line(server) == "ready"
    client = await pods.start(address, [program, "call", "localhost:8080"])
    async with asyncio.timeout(TIMEOUT):
        output, _ = await client.communicate()
    assert output == b"map[own:100]\n"
