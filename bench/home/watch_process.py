"""A process that holds watches and records when each change reaches each of them.

A thousand streams with a hundred changes per second are much for one process, so this one does the
minimum: it reads from a socket, searches the bytes for the annotation of a change, and records the
time. It never parses an event. A watch that the server ends is resumed from the last
resourceVersion, as any Kubernetes client does.
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

from bench.home.raw_http import encode_request
from tests.harness.access import ServerAccess

SENT_ANNOTATION = "bench/sent"
"""The annotation that identifies a change: its number, and when it was sent (monotonic, ns)."""

_ANNOTATION_PATTERN = re.compile(rb'"bench/sent":"(\d+)-(\d+)"')
_CHUNK_FRAMING = re.compile(rb"\r\n(?:[0-9a-f]+\r\n)?")
_VERSION_PATTERN = re.compile(rb'"resourceVersion":"(\d+)"')
_LAST_CHUNK = b"0\r\n\r\n"
_END_OF_LINE = b"\n\r\n"  # also of a chunk: JSON has no carriage returns
_RECORD = 1 << 14  # the maximum size of a TLS record
_CARRIED_BYTES = 96
_CONNECT_SECONDS = 30


class ChangeScanner:
    """Finds the annotations in the data of one watch, which may be split anywhere, each once."""

    def __init__(self, changes: int) -> None:
        self._seen_changes = bytearray(changes)
        self._partial = b""
        self._newest_version = b""
        self.ended = False
        """Whether the last piece was the end of the stream."""

    def scan(self, data: bytes) -> list[int]:
        """When the changes were sent whose annotations are new in this data."""
        if self._partial or not _is_one_chunk(data):
            raw = self._partial + data
            self.ended = raw == _LAST_CHUNK or raw.endswith(b"\r\n" + _LAST_CHUNK)
            # An annotation may be split by the end of the data or by a chunk boundary. The end is
            # scanned again with the next data; complete annotations in it are known by then.
            self._partial = b"" if raw.endswith(_END_OF_LINE) else raw[-_CARRIED_BYTES:]
            data = _CHUNK_FRAMING.sub(b"", raw)
        seen = self._seen_changes
        found: list[int] = []
        for number, sent in _ANNOTATION_PATTERN.findall(data):
            self._newest_version = data
            position = int(number)
            if not seen[position]:
                seen[position] = 1
                found.append(int(sent))
        return found

    def reset_stream(self) -> str:
        """The resourceVersion to resume from, if known; the next data is a new response."""
        self.ended = False
        self._partial = b"\r\n"
        versions = _VERSION_PATTERN.findall(self._newest_version)
        return versions[-1].decode() if versions else ""


def _is_one_chunk(data: bytes) -> bool:
    """Whether this is exactly one HTTP chunk of whole lines."""
    size, end, rest = data.partition(b"\r\n")
    return bool(end) and data.endswith(_END_OF_LINE) and 0 < int(size, 16) == len(rest) - 2


class _WatchStream:
    """One watch on its own connection; `path` lacks the resourceVersion."""

    def __init__(
        self, access: ServerAccess, context: ssl.SSLContext, path: str, version: str, changes: int
    ) -> None:
        plain = socket.create_connection((access.host, access.port), _CONNECT_SECONDS)
        self._socket = context.wrap_socket(plain, server_hostname=access.host)
        self._path = path
        self._version = version
        self._scanner = ChangeScanner(changes)
        self.resumed = 0
        self._send_request()
        if first_data := self._read_head():
            self._scanner.scan(first_data)
        self._socket.setblocking(False)

    def _send_request(self) -> None:
        self._socket.sendall(encode_request("GET", f"{self._path}&resourceVersion={self._version}"))

    def _read_head(self) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self._socket.recv(_RECORD)
            if not piece:
                break
            received += piece
        head, _, rest = received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"watch failed: {received.decode(errors='replace')}")
        return rest

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self, latencies: "array[float]") -> None:
        """Record the latencies of changes that arrive now; resume if the server ends the watch."""
        try:
            data = self._socket.recv(_RECORD)
        except ssl.SSLWantReadError:
            return
        now = time.monotonic_ns()
        if not data:
            raise RuntimeError("the server closed the connection of a watch")
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"watch not resumed: {data.decode(errors='replace')}")
        latencies.extend([(now - sent) / 1e9 for sent in self._scanner.scan(data)])
        if self._scanner.ended:
            self._version = self._scanner.reset_stream() or self._version
            self.resumed += 1
            self._send_request()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Seconds of each delivery, how many watches were resumed, and the CPU seconds of recording."""

    latencies: "array[float]"
    resumed: int
    cpu: float


def hold_watches(
    access: ServerAccess,
    paths: Sequence[str],
    version: str,
    changes: int,
    expected: int,
    pipe: Pipe,
) -> None:
    """Open all watches, report readiness, and send `Deliveries` at the end.

    The end is when all `expected` deliveries were seen, or when the other side sends a message.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = access.ssl_context()
    streams = [_WatchStream(access, context, path, version, changes) for path in paths]
    pipe.send("ready")
    cpu = time.process_time()
    latencies = _record_deliveries(streams, expected, pipe)
    resumed = sum(stream.resumed for stream in streams)
    pipe.send(Deliveries(latencies, resumed, time.process_time() - cpu))


def _record_deliveries(
    streams: Sequence[_WatchStream], expected: int, pipe: Pipe
) -> "array[float]":
    by_descriptor = {stream.fileno(): stream for stream in streams}
    latencies = array("d")
    with select.epoll() as poll:
        for descriptor in (*by_descriptor, pipe.fileno()):
            poll.register(descriptor, select.EPOLLIN)
        while len(latencies) < expected:
            for descriptor, _ in poll.poll():
                stream = by_descriptor.get(descriptor)
                if stream is None:
                    return latencies
                stream.receive(latencies)
    return latencies
