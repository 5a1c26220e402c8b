"""How full GPUs would be if every task could be put elsewhere at every arrival.

Devices are loose here: nodes, CPU, memory and models are left out, and a task is turned away only
where it and the tasks that are in need more devices than there are, however they are packed: each
takes the part of a device that it takes in the best of all packings of the mix (the dual of the
cutting-stock programme), so that no packing needs less. Who takes whatever fits has this to win by
moving tasks, and no more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import highspy

from bench.packing.play import Outcome
from bench.packing.traces import OVERLOAD
from kilonova.scheduler.core.demand import Ask
from kilonova.scheduler.core.devices import WHOLE

_NOISE = 1e-9


def ceiling(capacity: int, tasks: Sequence[Ask]) -> Outcome:
    """The same arrivals with devices that are loose."""
    shares = Counter(ask.milli for ask in tasks if ask.shares for _ in range(ask.gpus))
    part = device_parts(shares)
    devices = capacity // WHOLE
    asked = used = 0
    taken = 0.0
    at_100: float | None = None
    for ask in tasks:
        asked += ask.amount
        need = ask.gpus * (part[ask.milli] if ask.shares else 1.0)
        if taken + need <= devices + _NOISE:
            taken += need
            used += ask.amount
        if at_100 is None and asked >= capacity:
            at_100 = 100 * used / capacity
        if asked >= OVERLOAD * capacity:
            break
    at_130 = 100 * used / capacity
    return Outcome(at_130 if at_100 is None else at_100, at_130)


def device_parts(counts: Mapping[int, int]) -> dict[int, float]:
    """Which part of a device a share of each size takes when all are packed on as few as possible;
    what fits on one device takes no more than that one."""
    sizes = sorted(counts)
    if not sizes:
        return {}
    patterns = [{size: WHOLE // size} for size in sizes]
    while True:
        parts = _duals(patterns, counts, sizes)
        pattern = _heaviest(parts)
        weight = sum(parts[size] * number for size, number in pattern.items())
        if weight <= 1 + _NOISE:
            return parts
        patterns.append(pattern)


def _duals(
    patterns: Sequence[Mapping[int, int]], counts: Mapping[int, int], sizes: Sequence[int]
) -> dict[int, float]:
    """What one more task of each size would cost in devices that hold these patterns."""
    solver: Any = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    devices = [solver.addVariable(lb=0.0, obj=1.0) for _ in patterns]
    for size in sizes:
        holding = [
            pattern[size] * device
            for pattern, device in zip(patterns, devices, strict=True)
            if size in pattern
        ]
        solver.addConstr(sum(holding[1:], holding[0]) >= counts[size])
    solver.run()
    duals = solver.getSolution().row_dual
    return {size: max(0.0, float(dual)) for size, dual in zip(sizes, duals, strict=True)}


def _heaviest(parts: Mapping[int, float]) -> dict[int, int]:
    """The tasks on one device that take most of it, if parts could be trusted."""
    best = [0.0] * (WHOLE + 1)
    last = [0] * (WHOLE + 1)
    for milli in range(1, WHOLE + 1):
        best[milli], last[milli] = best[milli - 1], 0
        for size, part in parts.items():
            if size <= milli and best[milli - size] + part > best[milli] + _NOISE:
                best[milli], last[milli] = best[milli - size] + part, size
    pattern: Counter[int] = Counter()
    milli = WHOLE
    while milli > 0:
        size = last[milli]
        if size:
            pattern[size] += 1
        milli -= size or 1
    return dict(pattern)
