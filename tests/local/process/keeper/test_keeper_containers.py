"""Containers start, end and are found, whatever they do."""

import asyncio
import os
import signal
import time

import pytest

from kilonova.local.nodes.process.keeper.groups import MARK
from kilonova.local.nodes.process.runtime import StartFailed, UnknownContainer
from tests.local.process.keeper.site import Site, is_alive, until


async def test_output_and_exit_code_of_a_command(site: Site) -> None:
    before = time.time()
    state, text = await site.shell("echo out; echo err >&2; exit 3")
    assert (state.exit_code, state.reason) == (3, "Error")
    assert sorted(text.split()) == ["err", "out"]
    assert state.finished is not None
    assert before <= state.started <= state.finished <= time.time()


async def test_a_command_that_succeeds_is_completed(site: Site) -> None:
    state = await site.run("true")
    assert (state.exit_code, state.reason) == (0, "Completed")


async def test_a_container_gets_its_environment_and_folder_alone(site: Site) -> None:
    _, text = await site.shell("pwd; env", folder="/usr", env={"PATH": "/bin:/usr/bin", "A": "b c"})
    lines = set(text.splitlines())
    assert {"/usr", "A=b c", "PATH=/bin:/usr/bin"} <= lines
    own = {"PWD", "_", "SHLVL", MARK}  # the shell's, and the keeper's where it has no cgroups
    assert {line.partition("=")[0] for line in lines} <= {"/usr", "A", "PATH"} | own


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("nosuch", 'exec: "nosuch": executable file not found in $PATH'),
        ("/no/such", 'exec: "/no/such": stat /no/such: no such file or directory'),
        ("/etc/passwd", 'exec: "/etc/passwd": permission denied'),
        ("/etc", 'exec: "/etc": is a directory'),
    ],
)
async def test_a_command_that_cannot_be_executed(site: Site, command: str, message: str) -> None:
    with pytest.raises(StartFailed) as failed:
        await site.start(command)
    assert (failed.value.reason, failed.value.message) == ("StartError", message)
    assert await site.runtime.containers() == []


async def test_a_file_that_is_no_program(site: Site) -> None:
    file = site.folder / "garbage"
    file.write_bytes(b"\0\1\2")
    file.chmod(0o755)
    with pytest.raises(StartFailed, match="exec format error"):
        await site.start(str(file))


async def test_a_folder_that_is_not_there(site: Site) -> None:
    with pytest.raises(StartFailed, match=r'chdir to cwd \("/no/where"\) failed: no such file'):
        await site.start("true", folder="/no/where")


async def test_an_id_that_would_leave_the_folder_is_refused(site: Site) -> None:
    with pytest.raises(StartFailed, match="is not a container id"):
        await site.start("true", id="../x")


async def test_the_path_is_the_containers(site: Site) -> None:
    tool = site.folder / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    state = await site.run("only-here", env={"PATH": str(site.folder)})
    assert site.text(state.id) == "found\n"


async def test_a_container_starts_once_however_often_it_is_asked_for(site: Site) -> None:
    spec = site.spec("sleep", "100")
    first, second = await asyncio.gather(site.runtime.start(spec), site.runtime.start(spec))
    assert first == second == await site.runtime.start(spec)


async def test_a_signal_reaches_the_first_process(site: Site) -> None:
    state = await site.start(
        "sh", "-c", "trap 'echo got; exit 7' TERM; echo set; while :; do sleep 0.1; done"
    )
    await site.until_printed(state.id, "set")
    await site.runtime.signal(state.id, signal.SIGTERM)
    ended = await site.runtime.wait(state.id)
    assert ended.exit_code == 7
    assert site.text(state.id) == "set\ngot\n"
    await site.runtime.signal(state.id, signal.SIGTERM)  # it has ended: nothing happens


async def test_death_by_a_signal_is_128_and_its_number(site: Site) -> None:
    state = await site.start("sleep", "100")
    await site.runtime.signal(state.id, signal.SIGTERM)
    assert (await site.runtime.wait(state.id)).exit_code == 143


async def test_what_ignores_sigterm_is_killed(site: Site) -> None:
    state = await site.start("sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.1; done")
    await site.until_printed(state.id, "set")
    await site.runtime.signal(state.id, signal.SIGTERM)
    await asyncio.sleep(0)
    await site.runtime.kill(state.id)
    ended = await site.runtime.wait(state.id)
    assert (ended.exit_code, ended.reason) == (137, "Error")


FORKS = """
setsid sh -c 'echo $$; sleep 1000' &
(setsid sh -c 'sh -c "echo \\$\\$; exec sleep 1000" & echo $!' &)
env -i sh -c 'echo $$; /bin/sleep 1000' &
"""


@pytest.mark.parametrize("then", ["exit 0", "exec sleep 1000"])
async def test_what_forked_away_ends_with_the_container(site: Site, then: str) -> None:
    state = await site.start("sh", "-c", f"{FORKS} sleep 0.5; echo done; {then}")
    await site.until_printed(state.id, "done")
    await site.runtime.kill(state.id)
    await site.runtime.wait(state.id)
    pids = [int(line) for line in site.text(state.id).split() if line.isdigit()]
    assert len(pids) == 4
    assert not [pid for pid in pids if is_alive(pid)]


async def test_a_fork_bomb_ends(site: Site) -> None:
    bomb = "f() { while :; do sh -c 'sleep 100' & sleep 0.01; done; }; f & f & echo lit; wait"
    state = await site.start("sh", "-c", bomb)
    await site.until_printed(state.id, "lit")
    await site.runtime.kill(state.id)
    ended = await asyncio.wait_for(site.runtime.wait(state.id), 20)
    assert ended.exit_code == 137


async def test_a_forgotten_container_is_not_known_but_its_log_stays(site: Site) -> None:
    state = await site.run("echo", "kept")
    assert [each.id for each in await site.runtime.containers()] == [state.id]
    await site.runtime.forget(state.id)
    assert await site.runtime.containers() == []
    assert site.text(state.id) == "kept\n"
    with pytest.raises(UnknownContainer):
        await site.runtime.wait(state.id)


async def test_a_running_container_is_not_forgotten(site: Site) -> None:
    state = await site.start("sleep", "100")
    await site.runtime.forget(state.id)
    assert [each.id for each in await site.runtime.containers()] == [state.id]


async def test_consumption_is_of_those_that_run(site: Site) -> None:
    ended = await site.run("true")
    busy = await site.start("sh", "-c", "while :; do :; done")
    await until_spent(site, busy.id, 50_000_000)
    used = await site.runtime.consumption()
    assert ended.id not in used
    assert used[busy.id].memory_bytes > 0


async def until_spent(site: Site, container: str, nanoseconds: int) -> None:
    deadline = time.monotonic() + 20
    while (await site.runtime.consumption())[container].cpu_nanoseconds < nanoseconds:
        assert time.monotonic() < deadline


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
async def test_a_container_runs_as_another_user(site: Site) -> None:
    _, text = await site.shell("id -u; id -g; echo x > /dev/stderr", user=1234, group=2345)
    assert text.split() == ["1234", "2345", "x"]


async def test_many_at_once(site: Site) -> None:
    states = await asyncio.gather(*(site.run("sh", "-c", f"exit {n}") for n in range(150)))
    assert [state.exit_code for state in states] == list(range(150))


async def test_wait_may_be_given_up(site: Site) -> None:
    state = await site.start("sleep", "100")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(site.runtime.wait(state.id), 0.05)
    await site.runtime.kill(state.id)
    assert (await site.runtime.wait(state.id)).exit_code == 137


async def test_shutdown_ends_all_and_the_keeper(site: Site) -> None:
    state = await site.start("sleep", "100")
    pid = site.keeper_pid()
    await site.runtime.shutdown()
    await until(lambda: not is_alive(pid))
    assert not is_alive(state.pid)
    assert (await site.runtime.wait(state.id)).exit_code == 137  # asked of a new keeper
