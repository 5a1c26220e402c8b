"""The journal of a MIG engine: what it has promised and begun, on disk before it is done.

One line is one entry: the CRC-32 of the rest in eight hexadecimal digits, a space, and JSON. An
entry is on the disk (fsync) when `append` returns. A crash may leave an incomplete last line, which
is cut off when the journal is opened. A damaged line elsewhere is skipped and counted: the devices
and the pods of the node say the same, only less quickly.

When the journal has grown it is rewritten with the entries that still count, and renamed over
the old one.
"""

import contextlib
import errno
import os
import threading
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from kilonova.catalog.mig import Slot
from kilonova.gpu.mig.plan.steps import Step

_COMPACT_AFTER = 512
_MODE = 0o600


class Reserved(msgspec.Struct, frozen=True, tag="reserved"):
    """A slot belongs to a holder from now on, whether the instance exists or not."""

    holder: str
    device: str
    slot: Slot


class Released(msgspec.Struct, frozen=True, tag="released"):
    """A holder has nothing any more."""

    holder: str


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A step is about to be done."""

    number: int
    step: Step


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """A step was done (`error` is empty), or was not."""

    number: int
    instance: str = ""
    """UUID of the instance that was created."""
    error: str = ""


Entry: TypeAlias = Reserved | Released | Begun | Ended


class JournalContents(msgspec.Struct, frozen=True):
    """What a journal contains: the reservations that count, and the steps without an end."""

    reservations: tuple[Reserved, ...] = ()
    unfinished: tuple[Begun, ...] = ()
    damaged: int = 0
    """Lines that could not be read."""
    last_number: int = 0


_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
_encoder = msgspec.json.Encoder()


class Journal:
    """An open journal. Safe to use from several threads."""

    def __init__(self, path: Path, compact_after: int = _COMPACT_AFTER) -> None:
        """Open or create it; `OSError` where that is impossible."""
        self._path = path
        self._lock = threading.Lock()
        self._compact_after = compact_after
        data = path.read_bytes() if path.exists() else b""
        entries, damaged, length = _decode(data)
        self._entries = entries
        self.contents = summarise(entries, damaged)
        """What it said when it was opened."""
        self._number = self.contents.last_number
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            if length < len(data):
                os.ftruncate(self._file, length)
            os.lseek(self._file, 0, os.SEEK_END)
            os.fsync(self._file)
            _sync_folder(path.parent)
        except OSError:
            os.close(self._file)
            raise

    def reserve(self, reservations: Iterable[Reserved]) -> None:
        """Record reservations, all in one write."""
        self._append(list(reservations))

    def release(self, holder: str) -> None:
        """Record that a holder has nothing any more."""
        self._append([Released(holder)])

    def begin(self, step: Step) -> int:
        """Record that a step is about to be done; returns its number."""
        with self._lock:
            self._number += 1
            entry = Begun(self._number, step)
            self._write([entry])
            return entry.number

    def end(self, number: int, *, instance: str = "", error: str = "") -> None:
        """Record how a step ended."""
        self._append([Ended(number, instance, error)])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._file)
            self._file = -1

    def _append(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            self._write(entries)

    def _write(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        if self._file < 0:  # a call of the driver has outlived the engine
            raise OSError(errno.EBADF, "the journal is closed", str(self._path))
        start = os.lseek(self._file, 0, os.SEEK_END)
        try:
            _write_all(self._file, _encode(entries))
            os.fsync(self._file)
        except OSError:
            # An incomplete line in the middle would damage the next one.
            os.ftruncate(self._file, start)
            raise
        self._entries.extend(entries)
        if len(self._entries) > self._compact_after:
            # The entries are on the disk: a journal that stays long for now is no failure.
            with contextlib.suppress(OSError):
                self._compact()

    def _compact(self) -> None:
        contents = summarise(self._entries, 0)
        entries: list[Entry] = [*contents.reservations, *contents.unfinished]
        if 2 * len(entries) > self._compact_after:
            self._compact_after = 4 * len(entries)
        new = self._path.with_suffix(".new")
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
        try:
            _write_all(file, _encode(entries))
            os.fsync(file)
            os.replace(new, self._path)
        except OSError:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file
        self._entries = entries
        _sync_folder(self._path.parent)


def summarise(entries: Iterable[Entry], damaged: int = 0) -> JournalContents:
    """What counts after all these entries."""
    reservations: dict[tuple[str, str, Slot], Reserved] = {}
    begun: dict[int, Begun] = {}
    last = 0
    for entry in entries:
        match entry:
            case Reserved():
                reservations[entry.holder, entry.device, entry.slot] = entry
            case Released():
                for key in [key for key in reservations if key[0] == entry.holder]:
                    del reservations[key]
            case Begun():
                begun[entry.number] = entry
                last = max(last, entry.number)
            case Ended():
                begun.pop(entry.number, None)
                last = max(last, entry.number)
    return JournalContents(tuple(reservations.values()), tuple(begun.values()), damaged, last)


def _encode(entries: Sequence[Entry]) -> bytes:
    lines: list[bytes] = []
    for entry in entries:
        body = _encoder.encode(entry)
        lines.append(b"%08x %b\n" % (zlib.crc32(body), body))
    return b"".join(lines)


def _decode(data: bytes) -> tuple[list[Entry], int, int]:
    """The entries, the number of damaged lines, and the length up to the last complete line."""
    entries: list[Entry] = []
    damaged = 0
    length = data.rfind(b"\n") + 1
    for line in data[:length].splitlines():
        checksum, _, body = line.partition(b" ")
        try:
            if int(checksum, 16) != zlib.crc32(body):
                raise ValueError(line)
            entries.append(_decoder.decode(body))
        except ValueError:  # of int, of msgspec, of text that is not UTF-8
            damaged += 1
    return entries, damaged, length


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
