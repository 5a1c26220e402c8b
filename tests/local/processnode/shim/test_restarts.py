"""The shim outlives its clients, and its records outlive the shim."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kilonova.local.processnode.cri.api import ContainerState
from kilonova.local.processnode.cri.client import ShimError, ShimRuntime
from tests.local.processnode.shim.shim_site import PATH, ShimSite, is_alive, kill, wait_until

# Starts containers as Kilonova would, then dies as by kill -9, with all of its session.
DYING_CLIENT = """
import asyncio, os, pathlib, sys
from kilonova.local.processnode.cri.client import ShimRuntime
from kilonova.local.processnode.cri.api import ContainerSpec

async def main():
    folder = pathlib.Path(sys.argv[1])
    runtime = ShimRuntime(folder / "shim")
    scripts = {"short": "while [ ! -e go ]; do sleep 0.02; done; exit 5", "long": "sleep 1000"}
    for name, script in scripts.items():
        command = ("sh", "-c", script)
        await runtime.start(ContainerSpec(name, "pod", name, command, {"PATH": sys.argv[2]},
                                          str(folder), folder / "logs" / name, ""))
    os.killpg(0, 9)

asyncio.run(main())
"""


async def test_containers_outlive_the_client_and_are_found_again(shim_site: ShimSite) -> None:
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DYING_CLIENT, str(shim_site.folder), PATH), start_new_session=True
    )
    assert await client.wait() == -9
    (shim_site.folder / "go").touch()
    assert (await shim_site.runtime.wait("short")).exit_code == 5
    states = {each.id: each for each in await shim_site.runtime.list_containers()}
    assert states["short"].exit_code == 5
    assert states["long"].finished is None
    assert is_alive(states["long"].pid)


async def test_another_client_sees_the_same(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "1000")
    other = ShimRuntime(shim_site.shim_folder)
    assert await other.list_containers() == [state]
    await other.kill(state.id)
    assert await shim_site.runtime.wait(state.id) == await other.wait(state.id)


async def test_a_killed_shim_ends_its_containers(shim_site: ShimSite) -> None:
    ended = await shim_site.run("sh", "-c", "exit 2")
    script = "setsid sleep 1000 & echo $!; sleep 1000"
    running = await shim_site.start("sh", "-c", script)
    await wait_until(lambda: bool(shim_site.log(running.id)))
    runaway = int(shim_site.text(running.id))
    waiting = asyncio.create_task(shim_site.runtime.wait(running.id))
    await asyncio.sleep(0.05)
    kill(shim_site.shim_pid())
    lost = await waiting  # the client starts another shim
    assert (lost.exit_code, lost.reason) == (137, "ContainerStatusUnknown")
    assert (lost.id, lost.pod_uid, lost.started) == (running.id, "a-pod", running.started)
    assert not is_alive(running.pid)
    assert not is_alive(runaway)
    assert ended in await shim_site.runtime.list_containers()


async def test_a_directory_has_one_shim(shim_site: ShimSite) -> None:
    await shim_site.start("sleep", "1000")
    pid = shim_site.shim_pid()
    clients = [ShimRuntime(shim_site.shim_folder) for _ in range(5)]
    main = (
        Path(sys.modules[ShimRuntime.__module__].__file__ or "").parents[1] / "shim" / "__main__.py"
    )
    command = [sys.executable, "-I", "-S", str(main), str(shim_site.shim_folder), "30"]
    subprocess.run(command, check=True)
    for client in clients:
        assert len(await client.list_containers()) == 1
    assert shim_site.shim_pid() == pid


async def test_concurrent_clients_share_one_shim(shim_site: ShimSite) -> None:
    clients = [ShimRuntime(shim_site.shim_folder) for _ in range(5)]
    await asyncio.gather(*(client.list_containers() for client in clients))
    state = await shim_site.start("sleep", "1000")
    for client in clients:
        assert await client.list_containers() == [state]


async def test_an_idle_shim_exits(shim_site: ShimSite) -> None:
    runtime = ShimRuntime(shim_site.shim_folder, idle_seconds=0.2)
    state = await runtime.start(shim_site.spec("sh", "-c", "sleep 0.6; exit 3"))
    pid = shim_site.shim_pid()
    await wait_until(lambda: not is_alive(pid))
    assert not is_alive(state.pid)
    assert (await runtime.wait(state.id)).exit_code == 3  # as another shim reads
    await runtime.shutdown()


async def test_a_request_while_the_shim_ends_goes_to_the_next(shim_site: ShimSite) -> None:
    for _ in range(5):
        state = await shim_site.start("sleep", "1000")
        first = shim_site.shim_pid()
        _, states = await asyncio.gather(shim_site.runtime.shutdown(), wait_and_ask(shim_site))
        assert [each.exit_code for each in states if each.id == state.id] in ([137], [None])
        await wait_until(lambda pid=first: not is_alive(pid))


async def wait_and_ask(shim_site: ShimSite) -> Sequence[ContainerState]:
    await asyncio.sleep(0.003)
    return await shim_site.runtime.list_containers()


async def test_directory_path_may_be_long(tmp_path: Path) -> None:
    deep = tmp_path / ("deep-" * 20) / ("deeper-" * 20)
    shim_site = ShimSite(deep)
    try:
        assert len(str(shim_site.shim_folder)) > 200
        state, text = await shim_site.shell("echo fine")
        assert (state.exit_code, text) == (0, "fine\n")
    finally:
        await shim_site.runtime.shutdown()


async def test_socket_is_private_to_its_owner(shim_site: ShimSite) -> None:
    await shim_site.runtime.list_containers()
    assert shim_site.shim_folder.stat().st_mode & 0o777 == 0o700
    assert (shim_site.shim_folder / "shim.sock").stat().st_mode & 0o777 == 0o600


async def test_environment_of_a_container_is_not_persisted(shim_site: ShimSite) -> None:
    await shim_site.start("sleep", "1000", env={"PATH": PATH, "TOKEN": "dont-tell"})
    files = [each for each in shim_site.shim_folder.rglob("*") if each.is_file()]
    assert any(each.suffix == ".json" for each in files)
    assert not [each for each in files if b"dont-tell" in each.read_bytes()]


async def test_a_shim_that_cannot_start_reports_why(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ShimError, match="File exists"):
        await ShimRuntime(file).list_containers()


async def test_the_shim_is_alone_in_its_session(shim_site: ShimSite) -> None:
    await shim_site.runtime.list_containers()
    pid = shim_site.shim_pid()
    assert os.getsid(pid) == pid


async def test_a_damaged_record_does_not_stop_the_shim(shim_site: ShimSite) -> None:
    kept = await shim_site.run("true")
    await shim_site.runtime.shutdown()
    (shim_site.shim_folder / "containers" / "torn.json").write_text('{"id": "to')
    assert await shim_site.runtime.list_containers() == [kept]
