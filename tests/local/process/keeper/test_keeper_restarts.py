"""The keeper outlives its clients, and what is known outlives the keeper."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kilonova.local.nodes.process.keeper.client import KeeperFailed, KeeperRuntime
from kilonova.local.nodes.process.runtime import ContainerState
from tests.local.process.keeper.site import PATH, Site, is_alive, kill, until

# Starts containers as Kilonova would, then dies as by kill -9, with all of its session.
DYING_CLIENT = """
import asyncio, os, pathlib, sys
from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from kilonova.local.nodes.process.runtime import ContainerSpec

async def main():
    folder = pathlib.Path(sys.argv[1])
    runtime = KeeperRuntime(folder / "keeper")
    scripts = {"short": "while [ ! -e go ]; do sleep 0.02; done; exit 5", "long": "sleep 1000"}
    for name, script in scripts.items():
        command = ("sh", "-c", script)
        await runtime.start(ContainerSpec(name, "pod", name, command, {"PATH": sys.argv[2]},
                                          str(folder), folder / "logs" / name, ""))
    os.killpg(0, 9)

asyncio.run(main())
"""


async def test_containers_outlive_the_client_and_are_found_again(site: Site) -> None:
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DYING_CLIENT, str(site.folder), PATH), start_new_session=True
    )
    assert await client.wait() == -9
    (site.folder / "go").touch()
    assert (await site.runtime.wait("short")).exit_code == 5
    states = {each.id: each for each in await site.runtime.containers()}
    assert states["short"].exit_code == 5
    assert states["long"].finished is None
    assert is_alive(states["long"].pid)


async def test_another_client_sees_the_same(site: Site) -> None:
    state = await site.start("sleep", "1000")
    other = KeeperRuntime(site.keeper_folder)
    assert await other.containers() == [state]
    await other.kill(state.id)
    assert await site.runtime.wait(state.id) == await other.wait(state.id)


async def test_a_killed_keeper_takes_its_containers_along(site: Site) -> None:
    ended = await site.run("sh", "-c", "exit 2")
    script = "setsid sleep 1000 & echo $!; sleep 1000"
    running = await site.start("sh", "-c", script)
    await until(lambda: bool(site.log(running.id)))
    runaway = int(site.text(running.id))
    waiting = asyncio.create_task(site.runtime.wait(running.id))
    await asyncio.sleep(0.05)
    kill(site.keeper_pid())
    lost = await waiting  # the client starts another keeper
    assert (lost.exit_code, lost.reason) == (137, "ContainerStatusUnknown")
    assert (lost.id, lost.pod_uid, lost.started) == (running.id, "a-pod", running.started)
    assert not is_alive(running.pid)
    assert not is_alive(runaway)
    assert ended in await site.runtime.containers()


async def test_a_folder_has_one_keeper(site: Site) -> None:
    await site.start("sleep", "1000")
    pid = site.keeper_pid()
    clients = [KeeperRuntime(site.keeper_folder) for _ in range(5)]
    main = Path(sys.modules[KeeperRuntime.__module__].__file__ or "").with_name("__main__.py")
    command = [sys.executable, "-I", "-S", str(main), str(site.keeper_folder), "30"]
    subprocess.run(command, check=True)
    for client in clients:
        assert len(await client.containers()) == 1
    assert site.keeper_pid() == pid


async def test_clients_that_come_at_once_share_one_keeper(site: Site) -> None:
    clients = [KeeperRuntime(site.keeper_folder) for _ in range(5)]
    await asyncio.gather(*(client.containers() for client in clients))
    state = await site.start("sleep", "1000")
    for client in clients:
        assert await client.containers() == [state]


async def test_a_keeper_goes_when_nothing_runs_and_nobody_asks(site: Site) -> None:
    runtime = KeeperRuntime(site.keeper_folder, idle_seconds=0.2)
    state = await runtime.start(site.spec("sh", "-c", "sleep 0.6; exit 3"))
    pid = site.keeper_pid()
    await until(lambda: not is_alive(pid))
    assert not is_alive(state.pid)
    assert (await runtime.wait(state.id)).exit_code == 3  # as another keeper reads
    await runtime.shutdown()


async def test_an_order_while_the_keeper_ends_goes_to_the_next(site: Site) -> None:
    for _ in range(5):
        state = await site.start("sleep", "1000")
        first = site.keeper_pid()
        _, states = await asyncio.gather(site.runtime.shutdown(), asked_later(site))
        assert [each.exit_code for each in states if each.id == state.id] in ([137], [None])
        await until(lambda pid=first: not is_alive(pid))


async def asked_later(site: Site) -> Sequence[ContainerState]:
    await asyncio.sleep(0.003)
    return await site.runtime.containers()


async def test_a_folder_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("deep-" * 20) / ("deeper-" * 20)
    site = Site(deep)
    try:
        assert len(str(site.keeper_folder)) > 200
        state, text = await site.shell("echo fine")
        assert (state.exit_code, text) == (0, "fine\n")
    finally:
        await site.runtime.shutdown()


async def test_the_socket_is_its_owners_alone(site: Site) -> None:
    await site.runtime.containers()
    assert site.keeper_folder.stat().st_mode & 0o777 == 0o700
    assert (site.keeper_folder / "keeper.sock").stat().st_mode & 0o777 == 0o600


async def test_no_secret_of_a_container_is_written_down(site: Site) -> None:
    await site.start("sleep", "1000", env={"PATH": PATH, "TOKEN": "dont-tell"})
    files = [each for each in site.keeper_folder.rglob("*") if each.is_file()]
    assert any(each.suffix == ".json" for each in files)
    assert not [each for each in files if b"dont-tell" in each.read_bytes()]


async def test_a_keeper_that_cannot_start_says_why(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(KeeperFailed, match="File exists"):
        await KeeperRuntime(file).containers()


async def test_the_keeper_is_alone_in_its_session(site: Site) -> None:
    await site.runtime.containers()
    pid = site.keeper_pid()
    assert os.getsid(pid) == pid


async def test_a_damaged_record_does_not_stop_the_keeper(site: Site) -> None:
    kept = await site.run("true")
    await site.runtime.shutdown()
    (site.keeper_folder / "containers" / "torn.json").write_text('{"id": "to')
    assert await site.runtime.containers() == [kept]
