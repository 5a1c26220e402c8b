"""`kubectl exec`, over WebSockets and over SPDY."""

import asyncio
import hashlib
import os

import pytest

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
