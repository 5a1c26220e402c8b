"""Container output as log lines in CRI format."""

import time

MAX_LINE_LENGTH = 16 * 1024
"""The maximum length of a line of output; longer ones are split into partial lines."""


def format_timestamp(nanoseconds: int) -> bytes:
    """A time since the epoch, as RFC 3339 with nine digits."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{fraction:09}Z", time.gmtime(seconds)).encode()


class LogLineSplitter:
    """Splits one stream into log lines. Buffers at most one incomplete line."""

    def __init__(self, stream: str) -> None:
        self._full = f" {stream} F ".encode()
        self._partial = f" {stream} P ".encode()
        self._unfinished = b""

    def split(self, data: bytes, time: bytes) -> bytes:
        """The log lines that these bytes complete."""
        *lines, rest = (self._unfinished + data).split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if len(line) > MAX_LINE_LENGTH:
                line = self._split_long_line(line, time, out)
            out.append(time + self._full + line)
        self._unfinished = (
            self._split_long_line(rest, time, out) if len(rest) > MAX_LINE_LENGTH else rest
        )
        out.append(b"")
        return b"\n".join(out)

    def flush(self, time: bytes) -> bytes:
        """A last line without a newline."""
        rest, self._unfinished = self._unfinished, b""
        return time + self._partial + rest + b"\n" if rest else b""

    def _split_long_line(self, line: bytes, time: bytes, out: list[bytes]) -> bytes:
        while len(line) > MAX_LINE_LENGTH:
            out.append(time + self._partial + line[:MAX_LINE_LENGTH])
            line = line[MAX_LINE_LENGTH:]
        return line
