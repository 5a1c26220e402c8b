"""A container from its start to its end."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from kilonova.local.nodes.process.keeper import processes
from kilonova.local.nodes.process.keeper.child import Launch
from kilonova.local.nodes.process.keeper.groups import Group
from kilonova.local.nodes.process.keeper.machine import Machine
from kilonova.local.nodes.process.keeper.output import Log, Output
from kilonova.local.nodes.process.keeper.terminals import Input, open_stdio
from kilonova.local.nodes.process.keeper.view import within
from kilonova.local.nodes.process.runtime import ContainerSpec, ContainerState, Mount, StartFailed

_LONGEST_DEATH = 10.0


class Container:
    """One that runs, or has run since this keeper started."""

    def __init__(
        self,
        machine: Machine,
        spec: ContainerSpec,
        group: Group,
        state: ContainerState,
        output: Output,
        given: Input | None,
    ) -> None:
        self.spec = spec
        self.group = group
        self.state = state
        self.output = output
        self.input = given
        self.ended = asyncio.Event()
        self._machine = machine
        self._process_started = 0
        self._end: asyncio.Future[int] | None = None

    def keep(self, end: "asyncio.Future[int]") -> "asyncio.Task[None]":
        """Take care of a process that has just been started."""
        self._end = end
        process = processes.look_at(self.state.pid)
        self._process_started = process.started if process else 0
        self._write_down()
        written = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.output.start(lambda: loop.call_soon_threadsafe(written.set))
        return asyncio.create_task(self._until_end(end, written))

    def signal(self, number: int) -> None:
        """To its first process, if that runs."""
        # Until its end is known the pid is its own, even if it has died.
        if self._end is not None and not self._end.done():
            os.kill(self.state.pid, number)

    async def _until_end(self, end: "asyncio.Future[int]", written: asyncio.Event) -> None:
        code = await end
        finished = time.time()
        # As in Kubernetes, whoever is left goes with the first process.
        await clear(self.group)
        self.output.finish()
        await written.wait()
        self.output.close()
        if self.input is not None:
            self.input.close()
        reason = "Completed" if code == 0 else "Error"
        if code != 0 and self.group.out_of_memory():
            reason = "OOMKilled"
        await _within_patience(self.group.remove)
        self.group.led_by(0)
        self.state = replace(self.state, finished=finished, exit_code=code, reason=reason)
        self._write_down()
        self.ended.set()

    def _write_down(self) -> None:
        # A disk that is full must not end a container, nor hide its end from who waits.
        with contextlib.suppress(OSError):
            self._machine.records.keep_container(self.state, self._process_started)


async def start(machine: Machine, spec: ContainerSpec) -> tuple[Container, "asyncio.Task[None]"]:
    """Run a container; the task is over when it has ended. `StartFailed` if it cannot be run."""
    group = machine.groups.group(spec.id)
    try:
        group.limit(spec.limits)
        log = Log(str(spec.log))
    except OSError as error:
        group.remove()
        message = f"{error.filename}: {error.strerror}"
        raise StartFailed("CreateContainerError", message) from error
    stdio = open_stdio(stdin=spec.stdin, tty=spec.tty)
    try:
        pid, end = await machine.run(_launch(machine, spec, group, stdio.theirs), spec.address)
    except StartFailed:
        stdio.close_ours()
        log.close()
        await clear(group)
        await _within_patience(group.remove)
        raise
    finally:
        stdio.close_theirs()
    group.led_by(pid)
    state = ContainerState(spec.id, spec.pod_uid, spec.name, pid, time.time())
    output = Output(stdio.outputs, log)
    container = Container(machine, spec, group, state, output, stdio.input)
    return container, container.keep(end)


async def clear(group: Group) -> None:
    """Kill all of a group, and see them gone."""

    def gone() -> bool:
        if not group.pids():
            return True
        group.kill()
        return False

    await _within_patience(gone)


async def _within_patience(done: Callable[[], bool]) -> None:
    """Try until it is done; what hangs in the kernel is given up after a while."""
    deadline = time.monotonic() + _LONGEST_DEATH
    pause = 0.001
    while not done() and time.monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


def _launch(
    machine: Machine, spec: ContainerSpec, group: Group, stdio: tuple[int, int, int]
) -> Launch:
    return Launch(
        spec.command,
        {**spec.env, **group.env},
        spec.folder,
        stdio,
        spec.tty,
        group.join,
        machine.namespaces,
        mounts=[
            each for each in spec.mounts if _changes_view(each, spec, machine.namespaces.allowed)
        ],
        hidden=spec.hidden if machine.namespaces.allowed else (),
        privileged=spec.privileged,
        hostname=spec.hostname,
        scratch=machine.scratch,
        user=spec.user,
        group=spec.group,
        install_filter=machine.install_filter if spec.address else None,
    )


def _changes_view(mount: Mount, spec: ContainerSpec, namespaces: bool) -> bool:
    if str(mount.source) != mount.target:
        return True
    return namespaces and (mount.read_only or within(mount.target, spec.hidden))
