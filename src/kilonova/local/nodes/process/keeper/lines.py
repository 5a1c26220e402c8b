"""Output as lines of a log, in the form that the CRI prescribes."""

import time

LONGEST_LINE = 16 * 1024
"""What a line of output may have before it is cut into partial ones."""


def timestamp(nanoseconds: int) -> bytes:
    """A time since 1970, as RFC 3339 with nine digits."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{fraction:09}Z", time.gmtime(seconds)).encode()


class Lines:
    """Cuts one stream into log lines. Holds at most one unfinished line."""

    def __init__(self, stream: str) -> None:
        self._full = f" {stream} F ".encode()
        self._partial = f" {stream} P ".encode()
        self._rest = b""

    def feed(self, data: bytes, time: bytes) -> bytes:
        """The log lines that these bytes complete."""
        *lines, rest = (self._rest + data).split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if len(line) > LONGEST_LINE:
                line = self._cut(line, time, out)
            out.append(time + self._full + line)
        self._rest = self._cut(rest, time, out) if len(rest) > LONGEST_LINE else rest
        out.append(b"")
        return b"\n".join(out)

    def end(self, time: bytes) -> bytes:
        """A last line that never got its end."""
        rest, self._rest = self._rest, b""
        return time + self._partial + rest + b"\n" if rest else b""

    def _cut(self, line: bytes, time: bytes, out: list[bytes]) -> bytes:
        while len(line) > LONGEST_LINE:
            out.append(time + self._partial + line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        return line
