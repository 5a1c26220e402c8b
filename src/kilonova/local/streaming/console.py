"""A process and the client at its console: what is typed goes in, what it writes comes out."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kubelets import Output, RemoteProcess

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Typed:
    """Bytes for standard input."""

    data: bytes


@dataclass(frozen=True, slots=True)
class InputEnded:
    """The end of standard input."""


@dataclass(frozen=True, slots=True)
class Resized:
    """The client's terminal has this size now."""

    columns: int
    rows: int


Input = Typed | InputEnded | Resized


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which streams the client asked for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    def shows(self, output: Output) -> bool:
        """A terminal has one output only."""
        return self.stdout if output is Output.STDOUT else self.stderr and not self.tty


class Console(Protocol):
    """The client's end."""

    def inputs(self) -> AsyncIterator[Input]:
        """What the client does, until it has gone. Raises `ProtocolError`."""
        ...

    async def show(self, output: Output, data: bytes) -> None:
        """Waits while the client does not read."""
        ...

    async def finish(self, outcome: JsonObject) -> None:
        """How it ended, a `Status`: the last that the client gets."""
        ...


async def converse(
    process: RemoteProcess, console: Console, wanted: Wanted, *, tells_exit_code: bool
) -> None:
    """Carry bytes both ways until the process has ended or the client has gone."""
    tasks = (
        asyncio.create_task(_feed(process, console, wanted)),
        asyncio.create_task(_show(process, console, wanted, tells_exit_code)),
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _feed(process: RemoteProcess, console: Console, wanted: Wanted) -> None:
    async with _closing(console.inputs()) as inputs:
        async for event in inputs:
            # A process that has closed its input, or has ended, is no reason to stop listening.
            with contextlib.suppress(OSError):
                await _give(process, event, wanted)


async def _give(process: RemoteProcess, event: Input, wanted: Wanted) -> None:
    match event:
        case Typed(data):
            if wanted.stdin:
                await process.send(data)
        case InputEnded():
            if wanted.stdin:
                await process.close_input()
        case Resized(columns, rows):
            if wanted.tty:
                await process.resize(columns, rows)


async def _show(
    process: RemoteProcess, console: Console, wanted: Wanted, tells_exit_code: bool
) -> None:
    async with _closing(process.output()) as outputs:
        async for output, data in outputs:
            if data and wanted.shows(output):
                await console.show(output, data)
    code = await process.wait()
    await console.finish(outcome(code if tells_exit_code else 0))


@contextlib.asynccontextmanager
async def _closing(items: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T]]:
    """Leave no generator behind half-way: its clean-up would come at an odd time."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def outcome(code: int) -> JsonObject:
    """How a command ended, in the words that clients read its exit code from."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class _Size(msgspec.Struct):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


_decode_size = msgspec.json.Decoder(_Size).decode
_MOST = 0xFFFF


def resized(text: bytes) -> Resized | None:
    """A size as clients send it; None where it is none, which changes nothing."""
    try:
        size = _decode_size(text)
    except msgspec.MsgspecError:
        return None
    if not (0 < size.width <= _MOST and 0 < size.height <= _MOST):
        return None
    return Resized(size.width, size.height)
