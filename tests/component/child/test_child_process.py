"""Programs that a component runs: readiness, failure, restart, log, and nothing left behind."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from urllib.request import urlopen

import psutil
import pytest

from kilonova.component.child import ChildFailed, ChildProcess, ChildProgram, http_ready, tcp_ready
from kilonova.kube import Backoff, ComponentHealth, Manager, Runnable, Supervisor

DEADLINE = 60.0


def python(source: str) -> tuple[str, ...]:
    """The command line of a Python program."""
    return (sys.executable, "-I", "-u", "-c", dedent(source))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def web_server(folder: Path) -> tuple[ChildProgram, str]:
    """A web server, and its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))
    program = ChildProgram(command=command, log=folder / "web.log", ready=http_ready(url))
    return program, url


async def wait_gone(pids: Sequence[int]) -> None:
    """Wait until none of these processes exists."""
    async with asyncio.timeout(DEADLINE):
        while any(is_alive(pid) for pid in pids):
            await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def read_pids(file: Path, count: int) -> list[int]:
    """The process ids that a program has written."""
    async with asyncio.timeout(DEADLINE):
        while True:
            words = file.read_text().split() if file.exists() else []
            if len(words) >= count:
                return [int(each) for each in words]
            await asyncio.sleep(0.05)


async def test_program_runs_until_it_is_stopped(tmp_path: Path) -> None:
    program, url = web_server(tmp_path)
    child = ChildProcess("web", program)
    manager = Manager(grace=DEADLINE)
    manager.add(child)
    running = asyncio.create_task(manager.run(signals=False))
    async with asyncio.timeout(DEADLINE):
        await child.wait_ready()
    with await asyncio.to_thread(urlopen, url) as reply:
        assert reply.status == 200
    manager.stop()
    await asyncio.wait_for(running, DEADLINE)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].rstrip("/")))
    log = tmp_path / "web.log"
    assert "GET / HTTP/1.1" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("print('no such database'); raise SystemExit(3)", "exited with 3: no such database"),
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11"),
        ("print('bye')", "exited: bye"),
    ],
)
async def test_exit_of_the_program_is_a_failure_with_its_last_line(
    tmp_path: Path, source: str, message: str
) -> None:
    program = ChildProgram(command=python(source), log=tmp_path / "log")
    with pytest.raises(ChildFailed) as failure:
        await asyncio.wait_for(ChildProcess("program", program).run(), DEADLINE)
    assert str(failure.value) == message


async def test_program_that_does_not_exist_is_a_failure(tmp_path: Path) -> None:
    program = ChildProgram(command=("no-such-program",), log=tmp_path / "log")
    with pytest.raises(ChildFailed, match="exited with 127: no-such-program: No such file"):
        await asyncio.wait_for(ChildProcess("program", program).run(), DEADLINE)


async def test_program_that_does_not_become_ready_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = f"import os, time; print(os.getpid(), file=open({str(pids)!r}, 'w')); time.sleep(600)"
    program = ChildProgram(
        command=python(source),
        log=tmp_path / "log",
        ready=tcp_ready("127.0.0.1", free_port()),
        start_timeout=1.0,
    )
    with pytest.raises(ChildFailed, match="not ready within 1 s"):
        await asyncio.wait_for(ChildProcess("program", program).run(), DEADLINE)
    if pids.exists():  # it may have been ended before it got there
        await wait_gone([int(each) for each in pids.read_text().split()])


async def test_log_is_bounded(tmp_path: Path) -> None:
    source = "for number in range(2000): print(f'line {number}', flush=True)\nraise SystemExit(1)"
    program = ChildProgram(command=python(source), log=tmp_path / "log", log_limit=4000)
    with pytest.raises(ChildFailed, match="exited with 1: line 1999"):
        await asyncio.wait_for(ChildProcess("program", program).run(), DEADLINE)
    assert {each.name for each in tmp_path.iterdir()} <= {"log", "log.1"}
    assert (tmp_path / "log").read_text().endswith("line 1999\n")


async def test_failed_program_is_restarted_and_reported(tmp_path: Path) -> None:
    program, url = web_server(tmp_path)
    children: list[ChildProcess] = []
    reports: list[ComponentHealth] = []
    failed = asyncio.Event()

    def build() -> Sequence[Runnable]:
        children.append(ChildProcess("web", program))
        return [children[-1]]

    def report(name: str, health: ComponentHealth) -> None:
        reports.append(health)
        failed.set()

    supervisor = Supervisor("web", build, on_health_change=report, backoff=Backoff(0.01, 0.1))
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(DEADLINE):
        await children[0].wait_ready()
        (shim,) = [
            each for each in psutil.Process().children() if str(program.log) in each.cmdline()
        ]
        shim.children()[0].kill()
        await failed.wait()
        assert reports[0].problem.startswith("web failed: killed by signal 9")
        while len(children) < 2:
            await asyncio.sleep(0.05)
        await children[-1].wait_ready()
    with await asyncio.to_thread(urlopen, url) as reply:
        assert reply.status == 200
    supervisor.stop()
    await asyncio.wait_for(running, DEADLINE)


FAMILY = """
    import os, signal, subprocess, sys, time
    # A descendant in a session of its own, which ignores SIGTERM.
    source = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    grandchild = subprocess.Popen([sys.executable, "-c", source], start_new_session=True)
    signal.signal(15, signal.SIG_IGN)
    with open(sys.argv[1], "w") as file:
        print(os.getppid(), os.getpid(), grandchild.pid, file=file)
    time.sleep(600)
"""
"""A program that writes the ids of its shim, itself and its child, and ignores SIGTERM."""


async def test_stop_ends_all_descendants(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = (*python(FAMILY), str(pids))
    child = ChildProcess("family", ChildProgram(command=command, log=tmp_path / "log", grace=0.1))
    running = asyncio.create_task(child.run())
    family = await read_pids(pids, 3)
    child.stop()
    await asyncio.wait_for(running, DEADLINE)
    await wait_gone(family)


async def test_cancelled_program_leaves_nothing_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = ChildProgram(command=(*python(FAMILY), str(pids)), log=tmp_path / "log", grace=600)
    running = asyncio.create_task(ChildProcess("family", program).run())
    family = await read_pids(pids, 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_gone(family)


PARENT = """
    import asyncio, sys
    from pathlib import Path
    from kilonova.component.child import ChildProcess, ChildProgram

    command, log = sys.argv[2:], Path(sys.argv[1])
    program = ChildProgram(command=tuple(command), log=log, grace=0.1)
    asyncio.run(ChildProcess("family", program).run())
"""


@pytest.mark.parametrize("victim", ["parent", "shim"])
async def test_kill_leaves_no_orphan(tmp_path: Path, victim: str) -> None:
    pids = tmp_path / "pids"
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        dedent(PARENT),
        str(tmp_path / "log"),
        *python(FAMILY),
        str(pids),
        stderr=asyncio.subprocess.DEVNULL,
    )
    family = await read_pids(pids, 3)
    try:
        shim, program, _ = family
        os.kill(parent.pid if victim == "parent" else shim, signal.SIGKILL)
        # A shim that is killed takes the program with it, but cannot end further descendants.
        await wait_gone([shim, program] if victim == "shim" else family)
        await asyncio.wait_for(parent.wait(), DEADLINE)
    finally:
        for each in filter(is_alive, family):
            os.kill(each, signal.SIGKILL)
