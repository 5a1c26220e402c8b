"""The protocol on the shim's socket: frames of a kind, a length and bytes.

A client opens a connection per request. It sends one `REQUEST` frame, a JSON object whose `do`
names the operation, and receives one; `failed` in it is an error. After `execute` and `attach` the
connection stays open: input and terminal sizes one way, output and the exit code the other. The
client sends more input only after `STDIN_ACK`, so that the shim keeps reading while a process does
not, and notices when the client disconnects.
"""

import asyncio
import json
import struct
from enum import IntEnum

from kilonova.local.processnode.cri.api import JsonObject

SOCKET_NAME = "shim.sock"
LOG_FILE = "shim.log"
MAX_CHUNK = 32 * 1024
_HEADER = struct.Struct("!BI")


class FrameKind(IntEnum):
    """The kind of a frame. STDOUT and STDERR have the numbers of their file descriptors."""

    REQUEST = 0
    STDOUT = 1
    STDERR = 2
    STDIN = 3
    END_OF_STDIN = 4
    STDIN_ACK = 5
    RESIZE = 6
    EXIT = 7


class FrameConnection:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_frame(self) -> tuple[FrameKind, bytes] | None:
        """The next frame; None when the peer has closed the connection."""
        try:
            kind, length = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            return FrameKind(kind), await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def send_frame(self, kind: FrameKind, data: bytes = b"") -> None:
        """Send a frame. Blocks while the peer does not read; `ConnectionError` when it has gone."""
        self._writer.write(_HEADER.pack(kind, len(data)) + data)
        await self._writer.drain()

    async def send_message(self, message: JsonObject) -> None:
        await self.send_frame(FrameKind.REQUEST, json.dumps(message).encode())

    async def read_message(self) -> JsonObject | None:
        got = await self.read_frame()
        return None if got is None else json.loads(got[1])

    def close(self) -> None:
        """Close after pending data has been sent."""
        self._writer.close()

    def abort(self) -> None:
        """Close at once, dropping pending data."""
        self._writer.transport.abort()
