"""What goes over the keeper's socket: frames of a kind, a length and bytes.

A client opens a connection for each order. It sends one `ORDER`, a JSON object whose `do` says
what, and gets one back; `failed` in it is an error. After `execute` and `attach` the connection
goes on: input and sizes one way, output and the exit code the other. The client sends more input
only after `TAKEN`, so that the keeper reads on while a process does not, and sees the client go.
"""

import asyncio
import json
import struct
from enum import IntEnum

from kilonova.api.json import JsonObject

SOCKET = "keeper.sock"
CHUNK = 32 * 1024
_HEAD = struct.Struct("!BI")


class Kind(IntEnum):
    """What a frame is. The numbers of output are its stream's."""

    ORDER = 0
    STDOUT = 1
    STDERR = 2
    STDIN = 3
    END_OF_STDIN = 4
    TAKEN = 5
    RESIZE = 6
    EXIT = 7


class Frames:
    """Both ends of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[Kind, bytes] | None:
        """The next; None when the other side has gone."""
        try:
            kind, length = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            return Kind(kind), await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def send(self, kind: Kind, data: bytes = b"") -> None:
        """Waits while the other side does not read; `ConnectionError` when it has gone."""
        self._writer.write(_HEAD.pack(kind, len(data)) + data)
        await self._writer.drain()

    async def send_order(self, order: JsonObject) -> None:
        await self.send(Kind.ORDER, json.dumps(order).encode())

    async def read_order(self) -> JsonObject | None:
        got = await self.read()
        return None if got is None else json.loads(got[1])

    def close(self) -> None:
        """What was sent still arrives."""
        self._writer.close()

    def abort(self) -> None:
        """At once."""
        self._writer.transport.abort()
