"""Exec and attach."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from kilonova.local.kubelet_api import OutputStream
from kilonova.local.processnode.cri.api import ContainerStartError, Mount, UnknownContainer
from tests.local.processnode.shim.shim_site import (
    DEADLINE,
    ShimSite,
    collect_output,
    is_alive,
    wait_until,
)


@pytest.fixture
async def running(shim_site: ShimSite) -> str:
    return (await shim_site.start("sleep", "1000", folder="/usr")).id


async def test_exec_has_output_and_exit_code(shim_site: ShimSite, running: str) -> None:
    command = ["sh", "-c", "pwd; echo err >&2; exit 4"]
    process = await shim_site.runtime.execute(running, command, stdin=False, tty=False)
    assert await collect_output(process) == {
        OutputStream.STDOUT: b"/usr\n",
        OutputStream.STDERR: b"err\n",
    }
    assert await process.wait() == 4


async def test_exec_reads_input(shim_site: ShimSite, running: str) -> None:
    process = await shim_site.runtime.execute(running, ["sha1sum"], stdin=True, tty=False)
    data = bytes(range(250)) * 4_000
    await process.send(data)
    await process.close_input()
    digest = hashlib.sha1(data).hexdigest()
    assert (await collect_output(process))[OutputStream.STDOUT] == f"{digest}  -\n".encode()
    assert await process.wait() == 0


async def test_exec_passes_much_output_to_a_slow_reader(shim_site: ShimSite, running: str) -> None:
    command = ["head", "-c", "3000000", "/dev/zero"]
    process = await shim_site.runtime.execute(running, command, stdin=False, tty=False)
    total = 0
    async for _, data in process.output():
        total += len(data)
        await asyncio.sleep(0.001)
    assert total == 3_000_000
    assert await process.wait() == 0


async def test_exec_on_a_terminal_knows_its_size(shim_site: ShimSite, running: str) -> None:
    process = await shim_site.runtime.execute(
        running, ["sh", "-c", "read go; stty size; exit 6"], stdin=True, tty=True
    )
    await process.resize(132, 43)
    await process.send(b"go\n")
    got = await collect_output(process)
    assert b"43 132" in got[OutputStream.STDOUT]
    assert await process.wait() == 6


async def test_a_resize_reaches_a_running_program(shim_site: ShimSite, running: str) -> None:
    script = "trap 'stty size; exit 0' WINCH; echo set; while :; do sleep 0.05; done"
    process = await shim_site.runtime.execute(running, ["sh", "-c", script], stdin=True, tty=True)
    output = process.output()
    assert b"set" in (await anext(output))[1]
    await process.resize(100, 50)
    assert b"50 100" in (await anext(output))[1]


async def test_exec_of_a_missing_command(shim_site: ShimSite, running: str) -> None:
    with pytest.raises(ContainerStartError) as failed:
        await shim_site.runtime.execute(running, ["nosuch"], stdin=False, tty=False)
    assert failed.value.message == 'exec: "nosuch": executable file not found in $PATH'


async def test_exec_in_an_ended_container(shim_site: ShimSite) -> None:
    ended = await shim_site.run("true")
    with pytest.raises(ContainerStartError, match="CONTAINER_EXITED"):
        await shim_site.runtime.execute(ended.id, ["true"], stdin=False, tty=False)
    with pytest.raises(UnknownContainer):
        await shim_site.runtime.execute("nobody", ["true"], stdin=False, tty=False)


async def test_exec_shares_the_view_of_the_container(shim_site: ShimSite) -> None:
    (shim_site.folder / "file").write_text("seen\n")
    mounts = (Mount(shim_site.folder / "file", "/etc/no-such-folder/x"),)
    state = await shim_site.start("sleep", "1000", mounts=mounts, hostname="pod-7")
    command = ["sh", "-c", "cat /etc/no-such-folder/x; hostname; ls -d /proc/self"]
    process = await shim_site.runtime.execute(state.id, command, stdin=False, tty=False)
    assert (await collect_output(process))[OutputStream.STDOUT] == b"seen\npod-7\n/proc/self\n"


async def test_disconnecting_kills_the_exec_session(shim_site: ShimSite, running: str) -> None:
    command = ["sh", "-c", "echo $$; sleep 1000 & echo $!; wait"]
    process = await shim_site.runtime.execute(running, command, stdin=True, tty=False)
    text = b""
    async for _, data in process.output():
        text += data
        if text.count(b"\n") == 2:
            break
    await process.send(b"never read")
    await process.detach()
    await wait_until(lambda: not any(is_alive(int(pid)) for pid in text.split()))
    assert await process.wait() == 137
    assert await collect_output(process) == {}
    assert [each.finished for each in await shim_site.runtime.list_containers()] == [None]


async def test_disconnect_is_noticed_while_input_is_not_read(
    shim_site: ShimSite, running: str
) -> None:
    process = await shim_site.runtime.execute(
        running, ["sh", "-c", "echo $$; exec sleep 1000"], stdin=True, tty=False
    )
    pid = int((await anext(process.output()))[1])
    sending = asyncio.create_task(process.send(b"x" * 1_000_000))
    done, _ = await asyncio.wait({sending}, timeout=0.3)
    assert not done  # it waits, as the process does not read
    await process.detach()
    await wait_until(lambda: not is_alive(pid))
    await asyncio.wait_for(sending, DEADLINE)


async def test_exec_ends_with_its_process_though_its_children_go_on(
    shim_site: ShimSite, running: str
) -> None:
    command = ["sh", "-c", "sleep 1000 & echo $!"]
    process = await shim_site.runtime.execute(running, command, stdin=False, tty=False)
    pid = int((await collect_output(process))[OutputStream.STDOUT])
    assert await asyncio.wait_for(process.wait(), DEADLINE) == 0
    assert is_alive(pid)


async def test_exec_ends_with_the_container(shim_site: ShimSite, running: str) -> None:
    process = await shim_site.runtime.execute(running, ["sleep", "1000"], stdin=False, tty=False)
    await shim_site.runtime.kill(running)
    assert await asyncio.wait_for(process.wait(), DEADLINE) == 137


async def test_attach_streams_output_to_several_clients_until_the_end(shim_site: ShimSite) -> None:
    state = await shim_site.start(
        "sh", "-c", "echo before; read x; echo got $x; exit 9", stdin=True
    )
    await shim_site.wait_for_output(state.id, "before")
    one = await shim_site.runtime.attach(state.id, stdin=True)
    other = await shim_site.runtime.attach(state.id, stdin=False)
    await one.send(b"it\n")
    for process in (one, other):
        assert await collect_output(process) == {OutputStream.STDOUT: b"got it\n"}
        assert await process.wait() == 9
    assert shim_site.text(state.id) == "before\ngot it\n"


async def test_detaching_leaves_the_container_alone(shim_site: ShimSite) -> None:
    state = await shim_site.start("cat", stdin=True)
    for word in (b"one\n", b"two\n"):
        process = await shim_site.runtime.attach(state.id, stdin=True)
        await process.send(word)
        assert (await anext(process.output()))[1] == word
        await process.close_input()
        await process.detach()
    assert [each.finished for each in await shim_site.runtime.list_containers()] == [None]


async def test_input_once_ends_with_the_first_client(shim_site: ShimSite) -> None:
    state = await shim_site.start("cat", stdin=True, stdin_once=True)
    process = await shim_site.runtime.attach(state.id, stdin=True)
    await process.send(b"all")
    await process.detach()
    assert (await asyncio.wait_for(shim_site.runtime.wait(state.id), DEADLINE)).exit_code == 0


async def test_attach_to_a_terminal(shim_site: ShimSite) -> None:
    state = await shim_site.start("sh", "-c", "read x; stty size; exit 2", stdin=True, tty=True)
    process = await shim_site.runtime.attach(state.id, stdin=True)
    await process.resize(81, 25)
    await process.send(b"\n")
    assert b"25 81" in (await collect_output(process))[OutputStream.STDOUT]
    assert await process.wait() == 2


async def test_stalled_client_does_not_block_requests(shim_site: ShimSite) -> None:
    state = await shim_site.start("sh", "-c", "yes")
    process = await shim_site.runtime.attach(state.id, stdin=False)
    await anext(process.output())
    assert (await shim_site.run("true")).exit_code == 0
    await process.detach()
    await shim_site.runtime.kill(state.id)
    assert (await asyncio.wait_for(shim_site.runtime.wait(state.id), DEADLINE)).exit_code == 137


async def test_no_descriptor_is_leaked(shim_site: ShimSite, running: str) -> None:
    async def use() -> None:
        process = await shim_site.runtime.execute(running, ["cat"], stdin=True, tty=False)
        await process.send(b"x")
        await process.close_input()
        await collect_output(process)
        gone = await shim_site.runtime.execute(running, ["cat"], stdin=True, tty=True)
        await gone.detach()
        with pytest.raises(ContainerStartError):
            await shim_site.start("nosuch", stdin=True)
        ended = await shim_site.run("true", stdin=True, tty=True, address="127.64.9.1")
        await shim_site.runtime.remove_container(ended.id)

    def open_files() -> int:
        return len(list(Path(f"/proc/{shim_site.shim_pid()}/fd").iterdir()))

    await use()
    before = open_files()
    for _ in range(5):
        await use()
    await wait_until(lambda: open_files() <= before)
