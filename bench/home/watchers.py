"""A process that holds watches and notes when each change reaches each of them.

A thousand streams of a hundred changes a second are a lot for one process, so this one does
the least: it takes what a socket has, looks for the mark of a change in the bytes, and notes
the time. It never parses an event. A watch that the server ends is resumed from the last
version seen, as every client of Kubernetes does.
"""

import re
import resource
import select
import socket
import ssl
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

from bench.home.wire import request
from tests.harness.access import Access

SENT = "bench/sent"
"""The annotation that marks a change: its number, and when it was sent (monotonic, ns)."""

_MARK = re.compile(rb'"bench/sent":"(\d+)-(\d+)"')
_FRAMING = re.compile(rb"\r\n(?:[0-9a-f]+\r\n)?")
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_LAST_CHUNK = b"0\r\n\r\n"
_END_OF_LINE = b"\n\r\n"  # and of a chunk: JSON has no carriage returns
_RECORD = 1 << 14  # the most that TLS hands out at once
_TORN = 96
_CONNECT_SECONDS = 30


class Marks:
    """Finds the marks in what one watch receives, in pieces cut anywhere, each mark once."""

    def __init__(self, changes: int) -> None:
        self._seen = bytearray(changes)
        self._torn = b""
        self._newest = b""
        self.ended = False
        """Whether the last piece was the end of the stream."""

    def fresh(self, data: bytes) -> list[int]:
        """When the changes were sent whose marks are new in this piece."""
        if self._torn or not _is_one_chunk(data):
            raw = self._torn + data
            self.ended = raw == _LAST_CHUNK or raw.endswith(b"\r\n" + _LAST_CHUNK)
            # A mark may be cut by the end, or by the border of two chunks. The end is read
            # again with what follows it; what was in it whole is known by then.
            self._torn = b"" if raw.endswith(_END_OF_LINE) else raw[-_TORN:]
            data = _FRAMING.sub(b"", raw)
        seen = self._seen
        found: list[int] = []
        for number, sent in _MARK.findall(data):
            self._newest = data
            position = int(number)
            if not seen[position]:
                seen[position] = 1
                found.append(int(sent))
        return found

    def resume(self) -> str:
        """The version to go on from, if any is known; what comes next is a new answer."""
        self.ended = False
        self._torn = b"\r\n"
        versions = _VERSION.findall(self._newest)
        return versions[-1].decode() if versions else ""


def _is_one_chunk(data: bytes) -> bool:
    """Whether this is one chunk of HTTP and no more, with whole lines in it."""
    size, end, rest = data.partition(b"\r\n")
    return bool(end) and data.endswith(_END_OF_LINE) and 0 < int(size, 16) == len(rest) - 2


class _Stream:
    """One watch on a connection of its own; `path` lacks the version to begin from."""

    def __init__(
        self, access: Access, context: ssl.SSLContext, path: str, version: str, changes: int
    ) -> None:
        plain = socket.create_connection((access.host, access.port), _CONNECT_SECONDS)
        self._socket = context.wrap_socket(plain, server_hostname=access.host)
        self._path = path
        self._version = version
        self._marks = Marks(changes)
        self.resumed = 0
        self._ask()
        if begun := self._read_head():
            self._marks.fresh(begun)
        self._socket.setblocking(False)

    def _ask(self) -> None:
        self._socket.sendall(request("GET", f"{self._path}&resourceVersion={self._version}"))

    def _read_head(self) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self._socket.recv(_RECORD)
            if not piece:
                break
            received += piece
        head, _, rest = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a watch was refused: {received.decode(errors='replace')}")
        return rest

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self, took: "array[float]") -> None:
        """Note how long the changes took that arrive now; go on if the server ends the watch."""
        try:
            data = self._socket.recv(_RECORD)
        except ssl.SSLWantReadError:
            return
        now = time.monotonic_ns()
        if not data:
            raise RuntimeError("the server closed the connection of a watch")
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a watch was not resumed: {data.decode(errors='replace')}")
        took.extend([(now - sent) / 1e9 for sent in self._marks.fresh(data)])
        if self._marks.ended:
            self._version = self._marks.resume() or self._version
            self.resumed += 1
            self._ask()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Seconds that each delivery took, how often a watch had to be resumed, and the processor
    seconds that noting it took."""

    took: "array[float]"
    resumed: int
    cpu: float


def hold_watches(
    access: Access, paths: Sequence[str], version: str, changes: int, expected: int, pipe: Pipe
) -> None:
    """Open all watches, say so, and send `Deliveries` at the end.

    That is when all that are `expected` were seen, or when the other side sends a word.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = access.ssl_context()
    streams = [_Stream(access, context, path, version, changes) for path in paths]
    pipe.send("ready")
    cpu = time.process_time()
    took = _note(streams, expected, pipe)
    resumed = sum(stream.resumed for stream in streams)
    pipe.send(Deliveries(took, resumed, time.process_time() - cpu))


def _note(streams: Sequence[_Stream], expected: int, pipe: Pipe) -> "array[float]":
    by_descriptor = {stream.fileno(): stream for stream in streams}
    took = array("d")
    with select.epoll() as poll:
        for descriptor in (*by_descriptor, pipe.fileno()):
            poll.register(descriptor, select.EPOLLIN)
        while len(took) < expected:
            for descriptor, _ in poll.poll():
                stream = by_descriptor.get(descriptor)
                if stream is None:
                    return took
                stream.receive(took)
    return took
