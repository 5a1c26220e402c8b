"""`kubectl exec`, over WebSockets and over SPDY."""

import asyncio
import hashlib
import os

import pytest

from kilonova.local.apiserver.streaming import session
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

pytestmark = pytest.mark.usefixtures("kubectl_path")

OVER = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"},
}


@pytest.fixture(params=OVER)
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    return OVER[request.param]


async def test_outputs_are_separate_and_exit_code_is_returned(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    ended = await streaming_cluster.run(
        "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3", env=env
    )
    assert (ended.out, ended.code) == (b"out\n", 3)
    assert ended.err == b"err\ncommand terminated with exit code 3\n"


async def test_successful_command_prints_nothing(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    ended = await streaming_cluster.run("exec", "web", "--", "true", env=env)
    assert (ended.code, ended.out, ended.err) == (0, b"", b"")


async def test_stdin_is_piped_to_its_end(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    sent = os.urandom(5_000_000)
    ended = await streaming_cluster.run("exec", "-i", "web", "--", "sha256sum", stdin=sent, env=env)
    assert ended.out.split()[0] == hashlib.sha256(sent).hexdigest().encode()
    assert ended.code == 0


async def test_large_output_is_complete(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    ended = await streaming_cluster.run(
        "exec", "web", "--", "head", "-c", "20000000", "/dev/zero", env=env
    )
    assert (len(ended.out), ended.code) == (20_000_000, 0)


async def test_command_ends_when_its_client_is_killed(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    client = await streaming_cluster.start(
        "exec", "web", "--", "sh", "-c", "echo on; exec sleep 600", env=env
    )
    assert await client.stdout.readline() == b"on\n"
    client.kill()
    async with asyncio.timeout(30):
        await streaming_cluster.machine.started[-1].detached.wait()
    assert streaming_cluster.machine.started[-1].process.returncode is not None


async def test_vanished_client_is_detected_while_stdin_is_not_read(
    streaming_cluster: StreamingCluster, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PING_SECONDS", 0.2)
    await streaming_cluster.pod("web")
    client = await streaming_cluster.start("exec", "-i", "web", "--", "sleep", "600", env=env)
    # More than all buffers in between hold: in the end nothing is read any more.
    client.stdin.write(bytes(50_000_000))
    sizes: list[int] = []
    while len(sizes) < 5 or sizes[-1] != sizes[-5]:
        sizes.append(client.stdin.transport.get_write_buffer_size())
        await asyncio.sleep(0.2)
    assert 0 < sizes[-1] < 50_000_000
    client.kill()
    async with asyncio.timeout(30):
        await streaming_cluster.machine.started[-1].detached.wait()


async def test_command_ends_when_the_server_stops(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    client = await streaming_cluster.start(
        "exec", "web", "--", "sh", "-c", "echo on; exec sleep 600", env=env
    )
    assert await client.stdout.readline() == b"on\n"
    async with asyncio.timeout(20):
        await streaming_cluster.cluster.stop()
        await client.wait()
    assert streaming_cluster.machine.started[-1].detached.is_set()
