"""What a running expression may spend, and the functions that count it.

The runtime itself bounds only the iterations of loops. So `bounds` puts calls of these
functions into every expression; their names cannot be written in one. Room is counted in about
bytes, as if values shared nothing: what is small only because it holds one thing many times
would still take forever to compare. Time is the thread's own, so that a busy machine changes
no verdict. Both are far above what Kubernetes' limit of 1,000,000 cost units allows.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from kilonova.local.schema.cel.functions.declare import Library

METERING = Library()

EXHAUSTED = "operation cancelled: actual cost limit exceeded"

_ROOM = 128 << 20
_SECONDS = 1.0
_ITEM = 64
"""Bytes that any value takes, inside a list or alone."""


class Meter:
    """What is left to one run of an expression."""

    __slots__ = ("_deadline", "_look_again", "exhausted", "room")

    def __init__(self) -> None:
        self.room = _ROOM
        self._deadline = time.thread_time() + _SECONDS
        self._look_again = time.perf_counter() + _SECONDS
        self.exhausted = False

    def spend(self, room: int) -> bool:
        """Whether the expression may go on. Once it may not, it never may again."""
        self.room -= room
        if self.room < 0 or (time.perf_counter() > self._look_again and self._is_late()):
            self.exhausted = True
        return not self.exhausted

    def _is_late(self) -> bool:
        """The thread's own clock is slow to read, and never ahead of the other."""
        left = self._deadline - time.thread_time()
        self._look_again = time.perf_counter() + left
        return left < 0


_meter: ContextVar[Meter] = ContextVar("meter")


@contextmanager
def metered() -> Generator[Meter]:
    """The meter of what runs inside."""
    meter = Meter()
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def _pay(room: int) -> None:
    if not _meter.get().spend(room):
        raise ValueError(EXHAUSTED)


@METERING.function("@tick", "int -> bool")
def tick(room: int) -> bool:
    """Whether there is time for more."""
    return _meter.get().spend(room)


@METERING.function("@weigh", "dyn, int, int -> bool")
def weigh(value: Any, copies: int, comparisons: int) -> bool:
    """Whether there is room for copies of a value, and time to compare its items.

    `comparisons` is what comparing any two of the items costs.
    """
    meter = _meter.get()
    compared = len(cast(list[Any], value)) ** 2 * comparisons if isinstance(value, list) else 0
    return meter.spend(_weight(value, meter.room) * copies + compared)


@METERING.function("@exhausted", "int -> dyn")
def fail(_: int) -> Any:
    """Where there is no value, because there was no room for it."""
    raise ValueError(EXHAUSTED)


@METERING.function("@range", "int -> list(int)")
def numbers(count: int) -> list[int]:
    """lists.range"""
    _pay(max(count, 0) * _ITEM)
    return list(range(count))


@METERING.method("@join", "list(string) -> string", "list(string), string -> string")
def join(texts: list[Any], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("no such overload")
    _pay(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


@METERING.method(
    "@replace",
    "string, string, string -> string",
    "string, string, string, int -> string",
)
def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    places = text.count(old) if limit < 0 else min(limit, text.count(old))
    _pay(len(text) + places * max(len(new) - len(old), 0))
    return text.replace(old, new, limit)


def _weight(value: Any, enough: int) -> int:
    """About the bytes of a value as if it shared nothing; counting stops at `enough`."""
    total = 0
    waiting = [value]
    while waiting and total <= enough:
        each = waiting.pop()
        total += _ITEM
        if isinstance(each, str | bytes | bytearray):
            total += len(each)
        elif isinstance(each, dict):
            entries = cast(dict[Any, Any], each)
            waiting += entries.keys()
            waiting += entries.values()
        elif isinstance(each, list):
            waiting += cast(list[Any], each)
    return total
