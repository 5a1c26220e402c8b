"""Exec and attach sessions in running containers."""

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import CancelledError

from kilonova.local.processnode.cri.api import ContainerStartError
from kilonova.local.processnode.cri.frames import MAX_CHUNK, FrameConnection, FrameKind
from kilonova.local.processnode.shim.container import RunningContainer
from kilonova.local.processnode.shim.host import ShimHost
from kilonova.local.processnode.shim.isolation import procfs
from kilonova.local.processnode.shim.isolation.process_groups import kill_processes
from kilonova.local.processnode.shim.isolation.process_start import ProcessLaunch
from kilonova.local.processnode.shim.nonblocking import wait_readable
from kilonova.local.processnode.shim.stdio.streams import ProcessInput, open_stdio

_ATTACH_SEND_TIMEOUT = 10.0
"""How long an attached client may delay a container's output."""


async def execute_command(
    host: ShimHost,
    container: RunningContainer,
    client: FrameConnection,
    command: Sequence[str],
    *,
    stdin: bool,
    tty: bool,
) -> None:
    """Run a command in a container until it ends, or until its client disconnects."""
    check_running(container)
    spec, group = container.spec, container.group
    stdio = open_stdio(stdin=stdin, tty=tty)
    try:
        launch = ProcessLaunch(
            command,
            {**spec.env, **group.env},
            spec.folder,
            stdio.child_fds,
            tty,
            group.procs_files,
            host.namespaces,
            join_view_of=container.state.pid,
            privileged=spec.privileged,
            user=spec.user,
            group=spec.group,
            install_filter=host.install_filter if spec.address else None,
        )
        pid, end = await host.launch_process(launch, spec.address)
    except ContainerStartError:
        stdio.close()
        raise
    finally:
        stdio.close_child_fds()
    exited = asyncio.Event()
    end.add_done_callback(lambda _: exited.set())
    inputs = asyncio.create_task(forward_input(client, stdio.stdin, close_on_eof=True))
    outputs: list[asyncio.Task[None]] = []
    try:
        await client.send_message({})
        for stream, fd in stdio.outputs.items():
            outputs.append(
                asyncio.create_task(_forward_output(client, FrameKind(stream), fd, exited))
            )
        await asyncio.wait({end, inputs}, return_when=asyncio.FIRST_COMPLETED)
        if end.done():
            await asyncio.gather(*outputs)
            await _send_exit_code(client, end.result())
        else:
            _kill_session(pid)
            await end
    except ConnectionError:  # the client disconnected while a frame was being sent
        _kill_session(pid)
    finally:
        for task in (inputs, *outputs):
            task.cancel()
        await asyncio.gather(inputs, *outputs, return_exceptions=True)
        stdio.close()


async def attach_container(
    container: RunningContainer, client: FrameConnection, *, stdin: bool
) -> None:
    """Stream a container's output from now on, and its input, until it ends or the client goes."""
    check_running(container)
    spec = container.spec
    feeds = stdin and spec.stdin
    loop = asyncio.get_running_loop()

    def show(stream: int, data: bytes) -> None:
        sending = asyncio.wait_for(client.send_frame(FrameKind(stream), data), _ATTACH_SEND_TIMEOUT)
        try:
            asyncio.run_coroutine_threadsafe(sending, loop).result()
        except (OSError, TimeoutError, CancelledError):
            container.output.remove_listener(show)
            loop.call_soon_threadsafe(client.abort)

    await client.send_message({})
    container.output.add_listener(show)
    ended = asyncio.create_task(container.ended.wait())
    given = container.stdin if feeds or spec.tty else None
    inputs = asyncio.create_task(
        forward_input(client, given, close_on_eof=feeds and spec.stdin_once, writable=feeds)
    )
    try:
        await asyncio.wait({ended, inputs}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await _send_exit_code(client, container.state.exit_code or 0)
        elif feeds and spec.stdin_once and container.stdin is not None:
            await container.stdin.send_eof()
    finally:
        container.output.remove_listener(show)
        for task in (ended, inputs):
            task.cancel()
        await asyncio.gather(ended, inputs, return_exceptions=True)


def check_running(container: RunningContainer) -> None:
    """`ContainerStartError` if it has ended."""
    if container.state.finished is not None:
        raise ContainerStartError("ContainerNotRunning", "container is in CONTAINER_EXITED state")


async def forward_input(
    client: FrameConnection,
    stdin: ProcessInput | None,
    *,
    close_on_eof: bool,
    writable: bool = True,
) -> None:
    """Forward a client's input until it disconnects. `close_on_eof`: its EOF closes the process's
    stdin.
    """
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
    feeder = asyncio.create_task(
        _write_input(client, stdin if writable else None, waiting, close_on_eof=close_on_eof)
    )
    try:
        while (got := await client.read_frame()) is not None:
            kind, data = got
            if kind is FrameKind.STDIN:
                waiting.put_nowait(data)
            elif kind is FrameKind.END_OF_STDIN:
                waiting.put_nowait(None)
            elif kind is FrameKind.RESIZE and stdin is not None:
                stdin.resize(*json.loads(data))
    finally:
        feeder.cancel()
        await asyncio.gather(feeder, return_exceptions=True)


async def _write_input(
    client: FrameConnection,
    stdin: ProcessInput | None,
    queue: "asyncio.Queue[bytes | None]",
    *,
    close_on_eof: bool,
) -> None:
    while True:
        data = await queue.get()
        if data is not None:
            if stdin is not None:
                await stdin.write(data)
            await client.send_frame(FrameKind.STDIN_ACK)
        elif stdin is not None and close_on_eof:
            await stdin.send_eof()


async def _forward_output(
    client: FrameConnection, kind: FrameKind, fd: int, exited: asyncio.Event
) -> None:
    """Forward until the pipe is closed, or the process has ended and the pipe is empty."""
    over = asyncio.create_task(exited.wait())
    try:
        while True:
            had_exited = exited.is_set()
            try:
                data = os.read(fd, MAX_CHUNK)
            except BlockingIOError:
                if had_exited:
                    return
                more = asyncio.create_task(wait_readable(fd))
                await asyncio.wait({more, over}, return_when=asyncio.FIRST_COMPLETED)
                more.cancel()
                await asyncio.gather(more, return_exceptions=True)
                continue
            except OSError:  # EIO of a terminal that no process has open any more
                return
            if not data:
                return
            await client.send_frame(kind, data)
    finally:
        over.cancel()


async def _send_exit_code(client: FrameConnection, code: int) -> None:
    await client.send_frame(FrameKind.EXIT, str(code).encode())


def _kill_session(pid: int) -> None:
    table = procfs.list_processes()
    session = [each.pid for each in table.values() if each.session == pid]
    kill_processes(sorted(procfs.find_descendants(table, [pid, *session])))
