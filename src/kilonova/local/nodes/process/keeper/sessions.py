"""What a client does in a running container: exec and attach."""

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import CancelledError

from kilonova.local.nodes.process.keeper import processes
from kilonova.local.nodes.process.keeper.child import Launch
from kilonova.local.nodes.process.keeper.container import Container
from kilonova.local.nodes.process.keeper.frames import CHUNK, Frames, Kind
from kilonova.local.nodes.process.keeper.groups import kill_all
from kilonova.local.nodes.process.keeper.machine import Machine
from kilonova.local.nodes.process.keeper.terminals import Input, open_stdio
from kilonova.local.nodes.process.keeper.waiting import readable
from kilonova.local.nodes.process.runtime import StartFailed

_PATIENCE = 10.0
"""How long a client that is attached may hold up a container's output."""


async def execute(
    machine: Machine,
    container: Container,
    client: Frames,
    command: Sequence[str],
    *,
    stdin: bool,
    tty: bool,
) -> None:
    """Run a command in a container until it ends, or until its client goes."""
    check_running(container)
    spec, group = container.spec, container.group
    stdio = open_stdio(stdin=stdin, tty=tty)
    try:
        launch = Launch(
            command,
            {**spec.env, **group.env},
            spec.folder,
            stdio.theirs,
            tty,
            group.join,
            machine.namespaces,
            view_of=container.state.pid,
            privileged=spec.privileged,
            user=spec.user,
            group=spec.group,
            install_filter=machine.install_filter if spec.address else None,
        )
        pid, end = await machine.run(launch, spec.address)
    except StartFailed:
        stdio.close_ours()
        raise
    finally:
        stdio.close_theirs()
    exited = asyncio.Event()
    end.add_done_callback(lambda _: exited.set())
    inputs = asyncio.create_task(take_input(client, stdio.input, ends=True))
    outputs: list[asyncio.Task[None]] = []
    try:
        await client.send_order({})
        for stream, fd in stdio.outputs.items():
            outputs.append(asyncio.create_task(_pass_on(client, Kind(stream), fd, exited)))
        await asyncio.wait({end, inputs}, return_when=asyncio.FIRST_COMPLETED)
        if end.done():
            await asyncio.gather(*outputs)
            await _tell_exit(client, end.result())
        else:
            _kill_session(pid)
            await end
    except ConnectionError:  # the client went while it was told something
        _kill_session(pid)
    finally:
        for task in (inputs, *outputs):
            task.cancel()
        await asyncio.gather(inputs, *outputs, return_exceptions=True)
        stdio.close_ours()


async def attach(container: Container, client: Frames, *, stdin: bool) -> None:
    """Show a container's output from now on, and give it input, until it or the client goes."""
    check_running(container)
    spec = container.spec
    feeds = stdin and spec.stdin
    loop = asyncio.get_running_loop()

    def show(stream: int, data: bytes) -> None:
        sending = asyncio.wait_for(client.send(Kind(stream), data), _PATIENCE)
        try:
            asyncio.run_coroutine_threadsafe(sending, loop).result()
        except (OSError, TimeoutError, CancelledError):
            container.output.ignore(show)
            loop.call_soon_threadsafe(client.abort)

    await client.send_order({})
    container.output.listen(show)
    ended = asyncio.create_task(container.ended.wait())
    given = container.input if feeds or spec.tty else None
    inputs = asyncio.create_task(
        take_input(client, given, ends=feeds and spec.stdin_once, writes=feeds)
    )
    try:
        await asyncio.wait({ended, inputs}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await _tell_exit(client, container.state.exit_code or 0)
        elif feeds and spec.stdin_once and container.input is not None:
            await container.input.end()
    finally:
        container.output.ignore(show)
        for task in (ended, inputs):
            task.cancel()
        await asyncio.gather(ended, inputs, return_exceptions=True)


def check_running(container: Container) -> None:
    """`StartFailed` if it has ended."""
    if container.state.finished is not None:
        raise StartFailed("ContainerNotRunning", "container is in CONTAINER_EXITED state")


async def take_input(
    client: Frames, given: Input | None, *, ends: bool, writes: bool = True
) -> None:
    """What a client sends, until it goes. `ends`: the end of its input is the process's."""
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
    feeder = asyncio.create_task(_feed(client, given if writes else None, waiting, ends=ends))
    try:
        while (got := await client.read()) is not None:
            kind, data = got
            if kind is Kind.STDIN:
                waiting.put_nowait(data)
            elif kind is Kind.END_OF_STDIN:
                waiting.put_nowait(None)
            elif kind is Kind.RESIZE and given is not None:
                given.resize(*json.loads(data))
    finally:
        feeder.cancel()
        await asyncio.gather(feeder, return_exceptions=True)


async def _feed(
    client: Frames, given: Input | None, waiting: "asyncio.Queue[bytes | None]", *, ends: bool
) -> None:
    while True:
        data = await waiting.get()
        if data is not None:
            if given is not None:
                await given.write(data)
            await client.send(Kind.TAKEN)
        elif given is not None and ends:
            await given.end()


async def _pass_on(client: Frames, kind: Kind, fd: int, exited: asyncio.Event) -> None:
    """Until the other end is closed, or the process has ended and nothing more is there."""
    over = asyncio.create_task(exited.wait())
    try:
        while True:
            had_exited = exited.is_set()
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                if had_exited:
                    return
                more = asyncio.create_task(readable(fd))
                await asyncio.wait({more, over}, return_when=asyncio.FIRST_COMPLETED)
                more.cancel()
                await asyncio.gather(more, return_exceptions=True)
                continue
            except OSError:  # a terminal that nobody has open any more
                return
            if not data:
                return
            await client.send(kind, data)
    finally:
        over.cancel()


async def _tell_exit(client: Frames, code: int) -> None:
    await client.send(Kind.EXIT, str(code).encode())


def _kill_session(pid: int) -> None:
    table = processes.everyone()
    session = [each.pid for each in table.values() if each.session == pid]
    kill_all(sorted(processes.family(table, [pid, *session])))
