"""What agents and the conductor exchange over TCP: frames of JSON.

A frame is its length in four bytes, the most significant first, and a message. The agent begins
with `Join`; the conductor answers `Joined` or `Refused`, and closes the connection after the
latter. Then the conductor sends `Ping` and `Compute` in any order, and the agent answers each with
`Pong` or `Shard`.
"""

import asyncio
from typing import Literal, TypeAlias

import msgspec

VERSION = 1
MISSED_HEARTBEATS = 3
"""A connection is lost after this many heartbeats without a message."""

RefusalReason = Literal[
    "InvalidMessage",
    "VersionMismatch",
    "ModelMismatch",
    "AgentsMismatch",
    "IndexOutOfRange",
    "IndexTaken",
]

_LENGTH_BYTES = 4
_MAX_FRAME_BYTES = 64 * 1024


class Join(msgspec.Struct, frozen=True, tag="join"):
    """An agent wants to join."""

    version: int
    model: str
    agents: int
    index: int
    process: str
    """A random text of the agent's process: the same one may join again at any time."""


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The agent has joined."""

    heartbeat: float
    """Seconds between two messages of the conductor, at most."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The agent may not join."""

    reason: RefusalReason
    message: str

    @property
    def is_permanent(self) -> bool:
        """Whether it stays so until the agent is configured otherwise."""
        return self.reason != "IndexTaken"


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """A heartbeat of the conductor."""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """A heartbeat of the agent."""


class Compute(msgspec.Struct, frozen=True, tag="compute"):
    """Asks for the agent's shard of a token."""

    id: int
    context: str


class Shard(msgspec.Struct, frozen=True, tag="shard"):
    """The agent's shard."""

    id: int
    value: int


Message: TypeAlias = Join | Joined | Refused | Ping | Pong | Compute | Shard


class ConnectionLost(Exception):
    """The connection ended, or what arrives is no message; reports why."""


class Connection:
    """Messages over a TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

    @property
    def peer(self) -> str:
        """The address of the other side."""
        host, port, *_ = self._writer.get_extra_info("peername") or ("unknown", 0)
        return f"{host}:{port}"

    def send(self, message: Message) -> None:
        """Send a message. Messages are small and few, and a peer that does not read is lost by its
        heartbeats: nothing waits for it."""
        if not self._writer.is_closing():
            content = self._encoder.encode(message)
            self._writer.write(len(content).to_bytes(_LENGTH_BYTES) + content)

    async def receive(self, timeout: float) -> Message:
        """The next message; `ConnectionLost` if there is none within the time."""
        try:
            async with asyncio.timeout(timeout):
                size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
                if size > _MAX_FRAME_BYTES:
                    raise ConnectionLost(f"a frame of {size} bytes is no message of an engine")
                return self._decoder.decode(await self._reader.readexactly(size))
        except TimeoutError:
            raise ConnectionLost(f"no message within {timeout:.1f} s") from None
        except (asyncio.IncompleteReadError, OSError) as error:
            problem = getattr(error, "strerror", "") or "the connection was closed"
            raise ConnectionLost(problem.lower()) from None
        except msgspec.DecodeError as error:
            raise ConnectionLost(f"a message is invalid: {error}") from None

    def close(self) -> None:
        """Close the connection; what was sent still arrives."""
        self._writer.close()
