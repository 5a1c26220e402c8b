"""Containers are started, end and are found, whatever they do."""

import asyncio
import os
import signal
import time

import pytest

from kilonova.local.processnode.cri.api import ContainerStartError, UnknownContainer
from kilonova.local.processnode.shim.isolation.process_groups import CONTAINER_VARIABLE
from tests.local.processnode.shim.shim_site import ShimSite, is_alive, wait_until


async def test_output_and_exit_code_of_a_command(shim_site: ShimSite) -> None:
    before = time.time()
    state, text = await shim_site.shell("echo out; echo err >&2; exit 3")
    assert (state.exit_code, state.reason) == (3, "Error")
    assert sorted(text.split()) == ["err", "out"]
    assert state.finished is not None
    assert before <= state.started <= state.finished <= time.time()


async def test_a_command_that_succeeds_is_completed(shim_site: ShimSite) -> None:
    state = await shim_site.run("true")
    assert (state.exit_code, state.reason) == (0, "Completed")


async def test_a_container_gets_its_environment_and_folder_alone(shim_site: ShimSite) -> None:
    _, text = await shim_site.shell(
        "pwd; env", folder="/usr", env={"PATH": "/bin:/usr/bin", "A": "b c"}
    )
    lines = set(text.splitlines())
    assert {"/usr", "A=b c", "PATH=/bin:/usr/bin"} <= lines
    own = {
        "PWD",
        "_",
        "SHLVL",
        CONTAINER_VARIABLE,
    }  # the shell's, and the shim's where it has no cgroups
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
async def test_a_command_that_cannot_be_executed(
    shim_site: ShimSite, command: str, message: str
) -> None:
    with pytest.raises(ContainerStartError) as failed:
        await shim_site.start(command)
    assert (failed.value.reason, failed.value.message) == ("StartError", message)
    assert await shim_site.runtime.list_containers() == []


async def test_file_that_is_not_executable(shim_site: ShimSite) -> None:
    file = shim_site.folder / "garbage"
    file.write_bytes(b"\0\1\2")
    file.chmod(0o755)
    with pytest.raises(ContainerStartError, match="exec format error"):
        await shim_site.start(str(file))


async def test_missing_working_directory(shim_site: ShimSite) -> None:
    with pytest.raises(
        ContainerStartError, match=r'chdir to cwd \("/no/where"\) failed: no such file'
    ):
        await shim_site.start("true", folder="/no/where")


async def test_container_id_outside_the_directory_is_rejected(shim_site: ShimSite) -> None:
    with pytest.raises(ContainerStartError, match="is not a container id"):
        await shim_site.start("true", id="../x")


async def test_the_path_is_the_containers(shim_site: ShimSite) -> None:
    tool = shim_site.folder / "only-here"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    state = await shim_site.run("only-here", env={"PATH": str(shim_site.folder)})
    assert shim_site.text(state.id) == "found\n"


async def test_a_container_starts_once_however_often_it_is_asked_for(shim_site: ShimSite) -> None:
    spec = shim_site.spec("sleep", "100")
    first, second = await asyncio.gather(
        shim_site.runtime.start(spec), shim_site.runtime.start(spec)
    )
    assert first == second == await shim_site.runtime.start(spec)


async def test_a_signal_reaches_the_first_process(shim_site: ShimSite) -> None:
    state = await shim_site.start(
        "sh", "-c", "trap 'echo got; exit 7' TERM; echo set; while :; do sleep 0.1; done"
    )
    await shim_site.wait_for_output(state.id, "set")
    await shim_site.runtime.signal(state.id, signal.SIGTERM)
    ended = await shim_site.runtime.wait(state.id)
    assert ended.exit_code == 7
    assert shim_site.text(state.id) == "set\ngot\n"
    await shim_site.runtime.signal(state.id, signal.SIGTERM)  # it has ended: no effect


async def test_death_by_a_signal_is_128_and_its_number(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "100")
    await shim_site.runtime.signal(state.id, signal.SIGTERM)
    assert (await shim_site.runtime.wait(state.id)).exit_code == 143


async def test_process_that_ignores_sigterm_is_killed(shim_site: ShimSite) -> None:
    state = await shim_site.start("sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.1; done")
    await shim_site.wait_for_output(state.id, "set")
    await shim_site.runtime.signal(state.id, signal.SIGTERM)
    await asyncio.sleep(0)
    await shim_site.runtime.kill(state.id)
    ended = await shim_site.runtime.wait(state.id)
    assert (ended.exit_code, ended.reason) == (137, "Error")


FORKS = """
setsid sh -c 'echo $$; sleep 1000' &
(setsid sh -c 'sh -c "echo \\$\\$; exec sleep 1000" & echo $!' &)
env -i sh -c 'echo $$; /bin/sleep 1000' &
"""


@pytest.mark.parametrize("then", ["exit 0", "exec sleep 1000"])
async def test_reparented_processes_end_with_the_container(shim_site: ShimSite, then: str) -> None:
    state = await shim_site.start("sh", "-c", f"{FORKS} sleep 0.5; echo done; {then}")
    await shim_site.wait_for_output(state.id, "done")
    await shim_site.runtime.kill(state.id)
    await shim_site.runtime.wait(state.id)
    pids = [int(line) for line in shim_site.text(state.id).split() if line.isdigit()]
    assert len(pids) == 4
    assert not [pid for pid in pids if is_alive(pid)]


async def test_a_fork_bomb_ends(shim_site: ShimSite) -> None:
    bomb = "f() { while :; do sh -c 'sleep 100' & sleep 0.01; done; }; f & f & echo lit; wait"
    state = await shim_site.start("sh", "-c", bomb)
    await shim_site.wait_for_output(state.id, "lit")
    await shim_site.runtime.kill(state.id)
    ended = await asyncio.wait_for(shim_site.runtime.wait(state.id), 20)
    assert ended.exit_code == 137


async def test_removed_container_is_unknown_but_its_log_stays(shim_site: ShimSite) -> None:
    state = await shim_site.run("echo", "kept")
    assert [each.id for each in await shim_site.runtime.list_containers()] == [state.id]
    await shim_site.runtime.remove_container(state.id)
    assert await shim_site.runtime.list_containers() == []
    assert shim_site.text(state.id) == "kept\n"
    with pytest.raises(UnknownContainer):
        await shim_site.runtime.wait(state.id)


async def test_running_container_is_not_removed(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "100")
    await shim_site.runtime.remove_container(state.id)
    assert [each.id for each in await shim_site.runtime.list_containers()] == [state.id]


async def test_consumption_is_of_those_that_run(shim_site: ShimSite) -> None:
    ended = await shim_site.run("true")
    busy = await shim_site.start("sh", "-c", "while :; do :; done")
    await wait_for_cpu_usage(shim_site, busy.id, 50_000_000)
    used = await shim_site.runtime.container_stats()
    assert ended.id not in used
    assert used[busy.id].memory_bytes > 0


async def wait_for_cpu_usage(shim_site: ShimSite, container: str, nanoseconds: int) -> None:
    deadline = time.monotonic() + 20
    while (await shim_site.runtime.container_stats())[container].cpu_nanoseconds < nanoseconds:
        assert time.monotonic() < deadline


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
async def test_a_container_runs_as_another_user(shim_site: ShimSite) -> None:
    _, text = await shim_site.shell("id -u; id -g; echo x > /dev/stderr", user=1234, group=2345)
    assert text.split() == ["1234", "2345", "x"]


async def test_many_at_once(shim_site: ShimSite) -> None:
    states = await asyncio.gather(*(shim_site.run("sh", "-c", f"exit {n}") for n in range(150)))
    assert [state.exit_code for state in states] == list(range(150))


async def test_wait_can_be_cancelled(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "100")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shim_site.runtime.wait(state.id), 0.05)
    await shim_site.runtime.kill(state.id)
    assert (await shim_site.runtime.wait(state.id)).exit_code == 137


async def test_shutdown_ends_all_containers_and_the_shim(shim_site: ShimSite) -> None:
    state = await shim_site.start("sleep", "100")
    pid = shim_site.shim_pid()
    await shim_site.runtime.shutdown()
    await wait_until(lambda: not is_alive(pid))
    assert not is_alive(state.pid)
    assert (await shim_site.runtime.wait(state.id)).exit_code == 137  # answered by a new shim
