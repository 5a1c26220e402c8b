"""An upper bound of GPU utilization: every task may be moved at every arrival.

Devices are pooled: nodes, CPU, memory and models are ignored, and a task is rejected only if it and
the placed tasks need more devices than exist, however they are packed. Each task counts with the
fraction of a device that it takes in the optimal packing of the mix (the dual of the cutting-stock
problem), so that no packing needs less. A policy that places whatever fits can gain no more than
this by migrating tasks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import highspy

from bench.packing.simulation import UtilizationResult
from bench.packing.traces import OVERLOAD
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.scoring.demand import PackingRequest

_TOLERANCE = 1e-9


def compute_upper_bound(capacity: int, tasks: Sequence[PackingRequest]) -> UtilizationResult:
    """The same arrivals with pooled devices."""
    shares = Counter(
        request.milli for request in tasks if request.is_shared for _ in range(request.gpus)
    )
    part = compute_device_fractions(shares)
    devices = capacity // MILLI_PER_GPU
    requested = used = 0
    used_devices = 0.0
    at_100: float | None = None
    for request in tasks:
        requested += request.gpu_milli
        need = request.gpus * (part[request.milli] if request.is_shared else 1.0)
        if used_devices + need <= devices + _TOLERANCE:
            used_devices += need
            used += request.gpu_milli
        if at_100 is None and requested >= capacity:
            at_100 = 100 * used / capacity
        if requested >= OVERLOAD * capacity:
            break
    at_130 = 100 * used / capacity
    return UtilizationResult(at_130 if at_100 is None else at_100, at_130)


def compute_device_fractions(counts: Mapping[int, int]) -> dict[int, float]:
    """The fraction of a device that a share of each size takes when all are packed on as few
    devices as possible; shares that fit on one device take at most one in total.
    """
    sizes = sorted(counts)
    if not sizes:
        return {}
    patterns = [{size: MILLI_PER_GPU // size} for size in sizes]
    while True:
        parts = _compute_duals(patterns, counts, sizes)
        pattern = _find_heaviest_pattern(parts)
        weight = sum(parts[size] * number for size, number in pattern.items())
        if weight <= 1 + _TOLERANCE:
            return parts
        patterns.append(pattern)


def _compute_duals(
    patterns: Sequence[Mapping[int, int]], counts: Mapping[int, int], sizes: Sequence[int]
) -> dict[int, float]:
    """What one more task of each size would cost in devices with these patterns."""
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


def _find_heaviest_pattern(parts: Mapping[int, float]) -> dict[int, int]:
    """The tasks on one device with the greatest total fraction."""
    best = [0.0] * (MILLI_PER_GPU + 1)
    last = [0] * (MILLI_PER_GPU + 1)
    for milli in range(1, MILLI_PER_GPU + 1):
        best[milli], last[milli] = best[milli - 1], 0
        for size, part in parts.items():
            if size <= milli and best[milli - size] + part > best[milli] + _TOLERANCE:
                best[milli], last[milli] = best[milli - size] + part, size
    pattern: Counter[int] = Counter()
    milli = MILLI_PER_GPU
    while milli > 0:
        size = last[milli]
        if size:
            pattern[size] += 1
        milli -= size or 1
    return dict(pattern)
