"""A container from start to exit."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace

from kilonova.local.processnode.cri.api import (
    ContainerSpec,
    ContainerStartError,
    ContainerState,
    Mount,
)
from kilonova.local.processnode.shim.host import ShimHost
from kilonova.local.processnode.shim.isolation import procfs
from kilonova.local.processnode.shim.isolation.process_groups import ProcessGroup
from kilonova.local.processnode.shim.isolation.process_start import ProcessLaunch
from kilonova.local.processnode.shim.isolation.rootfs import is_within
from kilonova.local.processnode.shim.stdio.output import ContainerOutput, RotatingLog
from kilonova.local.processnode.shim.stdio.streams import ProcessInput, open_stdio

_KILL_TIMEOUT = 10.0


class RunningContainer:
    """A container that runs, or has run since this shim started."""

    def __init__(
        self,
        host: ShimHost,
        spec: ContainerSpec,
        group: ProcessGroup,
        state: ContainerState,
        output: ContainerOutput,
        stdin: ProcessInput | None,
    ) -> None:
        self.spec = spec
        self.group = group
        self.state = state
        self.output = output
        self.stdin = stdin
        self.ended = asyncio.Event()
        self._host = host
        self._process_started = 0
        self._end: asyncio.Future[int] | None = None

    def supervise(self, end: "asyncio.Future[int]") -> "asyncio.Task[None]":
        """Supervise a process that has just been started."""
        self._end = end
        process = procfs.read_process(self.state.pid)
        self._process_started = process.started if process else 0
        self._save_record()
        written = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.output.start(lambda: loop.call_soon_threadsafe(written.set))
        return asyncio.create_task(self._wait_for_end(end, written))

    def signal(self, number: int) -> None:
        """Send a signal to its first process, if it runs."""
        # The pid cannot be reused before the process has been reaped, which the end reports.
        if self._end is not None and not self._end.done():
            os.kill(self.state.pid, number)

    async def _wait_for_end(self, end: "asyncio.Future[int]", written: asyncio.Event) -> None:
        code = await end
        finished = time.time()
        # As in Kubernetes, remaining processes are killed when the first process exits.
        await kill_group(self.group)
        self.output.finish()
        await written.wait()
        self.output.close()
        if self.stdin is not None:
            self.stdin.close()
        reason = "Completed" if code == 0 else "Error"
        if code != 0 and self.group.is_out_of_memory():
            reason = "OOMKilled"
        await _retry_until_timeout(self.group.remove)
        self.group.set_leader(0)
        self.state = replace(self.state, finished=finished, exit_code=code, reason=reason)
        self._save_record()
        self.ended.set()

    def _save_record(self) -> None:
        # A full disk must not end a container, nor hide its end from waiting clients.
        with contextlib.suppress(OSError):
            self._host.records.save_container(self.state, self._process_started)


async def start_container(
    host: ShimHost, spec: ContainerSpec
) -> tuple[RunningContainer, "asyncio.Task[None]"]:
    """Run a container; the task is done when it has ended. May raise `ContainerStartError`."""
    group = host.groups.get_group(spec.id)
    try:
        group.set_limits(spec.limits)
        log = RotatingLog(str(spec.log))
    except OSError as error:
        group.remove()
        message = f"{error.filename}: {error.strerror}"
        raise ContainerStartError("CreateContainerError", message) from error
    stdio = open_stdio(stdin=spec.stdin, tty=spec.tty)
    try:
        pid, end = await host.launch_process(
            _build_launch(host, spec, group, stdio.child_fds), spec.address
        )
    except ContainerStartError:
        stdio.close()
        log.close()
        await kill_group(group)
        await _retry_until_timeout(group.remove)
        raise
    finally:
        stdio.close_child_fds()
    group.set_leader(pid)
    state = ContainerState(spec.id, spec.pod_uid, spec.name, pid, time.time())
    output = ContainerOutput(stdio.outputs, log)
    container = RunningContainer(host, spec, group, state, output, stdio.stdin)
    return container, container.supervise(end)


async def kill_group(group: ProcessGroup) -> None:
    """Kill all processes of a group, and wait until they are gone."""

    def gone() -> bool:
        if not group.pids():
            return True
        group.kill()
        return False

    await _retry_until_timeout(gone)


async def _retry_until_timeout(done: Callable[[], bool]) -> None:
    """Retry until done; processes stuck in the kernel are given up after a timeout."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    pause = 0.001
    while not done() and time.monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)


def _build_launch(
    host: ShimHost, spec: ContainerSpec, group: ProcessGroup, stdio: tuple[int, int, int]
) -> ProcessLaunch:
    return ProcessLaunch(
        spec.command,
        {**spec.env, **group.env},
        spec.folder,
        stdio,
        spec.tty,
        group.procs_files,
        host.namespaces,
        mounts=[
            each for each in spec.mounts if _needs_mount(each, spec, host.namespaces.is_allowed)
        ],
        hidden=spec.hidden if host.namespaces.is_allowed else (),
        privileged=spec.privileged,
        hostname=spec.hostname,
        scratch=host.scratch,
        user=spec.user,
        group=spec.group,
        install_filter=host.install_filter if spec.address else None,
    )


def _needs_mount(mount: Mount, spec: ContainerSpec, namespaces: bool) -> bool:
    if str(mount.source) != mount.target:
        return True
    return namespaces and (mount.read_only or is_within(mount.target, spec.hidden))
