"""`kubectl exec`, over WebSockets and over SPDY."""

import asyncio
import hashlib
import os

import pytest

from kilonova.local.streaming import session
from tests.local.streaming.scene import Scene

OVER = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"},
}


@pytest.fixture(params=OVER)
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    return OVER[request.param]


async def test_outputs_come_apart_and_the_exit_code_is_the_commands(
    scene: Scene, env: dict[str, str]
) -> None:
    await scene.pod("web")
    ended = await scene.run(
        "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3", env=env
    )
    assert (ended.out, ended.code) == (b"out\n", 3)
    assert ended.err == b"err\ncommand terminated with exit code 3\n"


async def test_success_says_nothing(scene: Scene, env: dict[str, str]) -> None:
    await scene.pod("web")
    ended = await scene.run("exec", "web", "--", "true", env=env)
    assert (ended.code, ended.out, ended.err) == (0, b"", b"")


async def test_input_is_piped_to_its_end(scene: Scene, env: dict[str, str]) -> None:
    await scene.pod("web")
    sent = os.urandom(5_000_000)
    ended = await scene.run("exec", "-i", "web", "--", "sha256sum", stdin=sent, env=env)
    assert ended.out.split()[0] == hashlib.sha256(sent).hexdigest().encode()
    assert ended.code == 0


async def test_much_output_arrives_whole(scene: Scene, env: dict[str, str]) -> None:
    await scene.pod("web")
    ended = await scene.run("exec", "web", "--", "head", "-c", "20000000", "/dev/zero", env=env)
    assert (len(ended.out), ended.code) == (20_000_000, 0)


async def test_a_command_ends_when_its_client_is_killed(scene: Scene, env: dict[str, str]) -> None:
    await scene.pod("web")
    client = await scene.start("exec", "web", "--", "sh", "-c", "echo on; exec sleep 600", env=env)
    assert await client.stdout.readline() == b"on\n"
    client.kill()
    async with asyncio.timeout(30):
        await scene.machine.started[-1].detached.wait()
    assert scene.machine.started[-1].process.returncode is not None


async def test_a_client_is_missed_even_if_nobody_takes_what_it_sent(
    scene: Scene, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PING_SECONDS", 0.2)
    await scene.pod("web")
    client = await scene.start("exec", "-i", "web", "--", "sleep", "600", env=env)
    # More than all buffers on the way can hold: at the end nobody reads any more.
    client.stdin.write(bytes(50_000_000))
    sizes: list[int] = []
    while len(sizes) < 5 or sizes[-1] != sizes[-5]:
        sizes.append(client.stdin.transport.get_write_buffer_size())
        await asyncio.sleep(0.2)
    assert 0 < sizes[-1] < 50_000_000
    client.kill()
    async with asyncio.timeout(30):
        await scene.machine.started[-1].detached.wait()


async def test_a_command_ends_when_the_server_stops(scene: Scene, env: dict[str, str]) -> None:
    await scene.pod("web")
    client = await scene.start("exec", "web", "--", "sh", "-c", "echo on; exec sleep 600", env=env)
    assert await client.stdout.readline() == b"on\n"
    async with asyncio.timeout(20):
        await scene.cluster.stop()
        await client.wait()
    assert scene.machine.started[-1].detached.is_set()
