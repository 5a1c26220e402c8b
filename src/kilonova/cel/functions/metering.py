"""Cost limits of a running expression, and the functions that meter it.

The runtime bounds only the iterations of loops. So `cost_plan` inserts calls of these functions
into every expression; their names are not valid in CEL source. Memory is counted approximately in
bytes, as if values shared nothing: a value that is small only because it contains one item many
times would still take forever to compare. Time is the thread's CPU time, so that machine load does
not change results. Both limits are far above what Kubernetes' limit of 1,000,000 cost units allows.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from kilonova.cel.functions.declaration import FunctionLibrary

METERING_FUNCTIONS = FunctionLibrary()

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"

_MEMORY_LIMIT = 128 << 20
_TIME_LIMIT = 1.0
_ITEM_COST = 64
"""Bytes of any value, in a list or alone."""


class CostMeter:
    """The remaining budget of one evaluation."""

    __slots__ = ("_deadline", "_next_check", "exhausted", "memory_left")

    def __init__(self) -> None:
        self.memory_left = _MEMORY_LIMIT
        self._deadline = time.thread_time() + _TIME_LIMIT
        self._next_check = time.perf_counter() + _TIME_LIMIT
        self.exhausted = False

    def spend(self, size: int) -> bool:
        """Whether evaluation may continue. Once it may not, it never may again."""
        self.memory_left -= size
        if self.memory_left < 0 or (time.perf_counter() > self._next_check and self._is_late()):
            self.exhausted = True
        return not self.exhausted

    def _is_late(self) -> bool:
        """The thread's CPU clock is slow to read, and never ahead of the wall clock."""
        left = self._deadline - time.thread_time()
        self._next_check = time.perf_counter() + left
        return left < 0


_cost_meter: ContextVar[CostMeter] = ContextVar("meter")


@contextmanager
def metering() -> Generator[CostMeter]:
    """The meter of expressions that are evaluated inside."""
    meter = CostMeter()
    token = _cost_meter.set(meter)
    try:
        yield meter
    finally:
        _cost_meter.reset(token)


def _spend_or_raise(size: int) -> None:
    if not _cost_meter.get().spend(size):
        raise ValueError(COST_EXCEEDED)


@METERING_FUNCTIONS.function("@tick", "int -> bool")
def tick(size: int) -> bool:
    """Whether time is left."""
    return _cost_meter.get().spend(size)


@METERING_FUNCTIONS.function("@weigh", "dyn, int, int -> bool")
def weigh(value: Any, copies: int, comparisons: int) -> bool:
    """Whether memory is left for copies of a value, and time to compare its items.

    `comparisons` is the cost of comparing two of the items.
    """
    meter = _cost_meter.get()
    compared = len(cast(list[Any], value)) ** 2 * comparisons if isinstance(value, list) else 0
    return meter.spend(_estimate_size(value, meter.memory_left) * copies + compared)


@METERING_FUNCTIONS.function("@exhausted", "int -> dyn")
def fail(_: int) -> Any:
    """Evaluated in place of a value for which no memory is left."""
    raise ValueError(COST_EXCEEDED)


@METERING_FUNCTIONS.function("@range", "int -> list(int)")
def numbers(count: int) -> list[int]:
    """lists.range"""
    _spend_or_raise(max(count, 0) * _ITEM_COST)
    return list(range(count))


@METERING_FUNCTIONS.method("@join", "list(string) -> string", "list(string), string -> string")
def join(texts: list[Any], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("no such overload")
    _spend_or_raise(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


@METERING_FUNCTIONS.method(
    "@replace",
    "string, string, string -> string",
    "string, string, string, int -> string",
)
def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    _spend_or_raise(len(text) + count * max(len(new) - len(old), 0))
    return text.replace(old, new, limit)


def _estimate_size(value: Any, enough: int) -> int:
    """The approximate bytes of a value as if it shared nothing; counting stops at `enough`."""
    total = 0
    waiting = [value]
    while waiting and total <= enough:
        each = waiting.pop()
        total += _ITEM_COST
        if isinstance(each, str | bytes | bytearray):
            total += len(each)
        elif isinstance(each, dict):
            entries = cast(dict[Any, Any], each)
            waiting += entries.keys()
            waiting += entries.values()
        elif isinstance(each, list):
            waiting += cast(list[Any], each)
    return total
