"""A remote process and its client: copies the standard streams both ways."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kubelet_api import OutputStream, RemoteProcess

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StdinData:
    """Bytes for standard input."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StdinClosed:
    """The end of standard input."""


@dataclass(frozen=True, slots=True)
class TerminalResize:
    """The new size of the client's terminal."""

    columns: int
    rows: int


ClientInput = StdinData | StdinClosed | TerminalResize


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The streams that the client requested."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    def includes(self, output: OutputStream) -> bool:
        """Whether the client requested this output; a terminal has only one."""
        return self.stdout if output is OutputStream.STDOUT else self.stderr and not self.tty


class ClientStreams(Protocol):
    """The standard streams at the client's end."""

    def read_input(self) -> AsyncIterator[ClientInput]:
        """The client's input, until it disconnects. Raises `ProtocolError`."""
        ...

    async def write_output(self, output: OutputStream, data: bytes) -> None:
        """Write output; waits while the client does not read."""
        ...

    async def send_status(self, outcome: JsonObject) -> None:
        """Send the result as a `Status`, the last message to the client."""
        ...


async def copy_streams(
    process: RemoteProcess, client: ClientStreams, options: StreamOptions, *, report_exit_code: bool
) -> None:
    """Copy bytes both ways until the process has ended or the client has disconnected."""
    tasks = (
        asyncio.create_task(_copy_input(process, client, options)),
        asyncio.create_task(_copy_output(process, client, options, report_exit_code)),
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy_input(
    process: RemoteProcess, client: ClientStreams, options: StreamOptions
) -> None:
    async with _closing_iterator(client.read_input()) as inputs:
        async for event in inputs:
            # Keep reading from the client after the process has closed its input or has ended.
            with contextlib.suppress(OSError):
                await _forward_input(process, event, options)


async def _forward_input(
    process: RemoteProcess, event: ClientInput, options: StreamOptions
) -> None:
    match event:
        case StdinData(data):
            if options.stdin:
                await process.send(data)
        case StdinClosed():
            if options.stdin:
                await process.close_input()
        case TerminalResize(columns, rows):
            if options.tty:
                await process.resize(columns, rows)


async def _copy_output(
    process: RemoteProcess, client: ClientStreams, options: StreamOptions, report_exit_code: bool
) -> None:
    async with _closing_iterator(process.output()) as outputs:
        async for output, data in outputs:
            if data and options.includes(output):
                await client.write_output(output, data)
    code = await process.wait()
    await client.send_status(exit_status(code if report_exit_code else 0))


@contextlib.asynccontextmanager
async def _closing_iterator(items: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T]]:
    """Close the generator in any case: its clean-up must not happen at an arbitrary time."""
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def exit_status(code: int) -> JsonObject:
    """The result of a command, in the form from which clients parse its exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class _TerminalSize(msgspec.Struct):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


_decode_size = msgspec.json.Decoder(_TerminalSize).decode
_MAX_SIZE = 0xFFFF


def decode_terminal_size(text: bytes) -> TerminalResize | None:
    """A terminal size as clients send it; None if it is invalid, which is ignored."""
    try:
        size = _decode_size(text)
    except msgspec.MsgspecError:
        return None
    if not (0 < size.width <= _MAX_SIZE and 0 < size.height <= _MAX_SIZE):
        return None
    return TerminalResize(size.width, size.height)
