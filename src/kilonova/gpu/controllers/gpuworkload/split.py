"""How many equal pods the GPUs of a workload are in. Pure.

One pod, where a node has so many. Otherwise, with fewer processes than GPUs, a pod for each
process, as `worldSize` specifies; else as few equal pods as fit. A count that has no divisor near
the size of a node would fall apart into many small pods (11 GPUs on nodes of 8 into 11 pods): it is
an error, unless `worldSize` requires a process for each GPU.

A bandwidth is that between the GPUs of a pod, and a single GPU has none: with such a requirement,
several GPUs are never split into pods of one.

"GPUs" are MIG instances where the workload has these.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.api.kgwe import GPUWorkloadSpec
from kilonova.api.kgwe.requirements import MAX_GPUS
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec

UNSPLITTABLE = "UnsplittableCount"
_COUNT = "spec.gpuRequirements.count"
_WORLD_SIZE = "spec.distributedConfig.worldSize"
_MAX_SURPLUS = 2
"""There may be this many times as many pods as the count needs at least."""


@dataclass(frozen=True, slots=True)
class Split:
    """A number of equal pods."""

    pods: int
    gpus: int
    """GPUs of each pod, or MIG instances."""
    processes: int
    """Processes of each pod."""

    @property
    def world_size(self) -> int:
        """The number of all processes."""
        return self.pods * self.processes


def choose_split(
    spec: GPUWorkloadSpec, fits: Callable[[int], bool], current: int | None = None
) -> Split:
    """The split of a workload; raises `InvalidSpec`.

    `fits` indicates whether a node is big enough for so many GPUs of one pod. `current` is the
    number of pods that exist: it is kept if it still fits.
    """
    count, world_size = spec.gpu_requirements.amount, _get_world_size(spec)
    least = get_least_size(spec)
    if current and _is_possible(current, count, world_size, least) and fits(count // current):
        return build_split(spec, current)
    if _is_possible(1, count, world_size, least) and fits(count):
        return build_split(spec, 1)
    if world_size is not None and world_size < count:
        if fits(count // world_size):
            return build_split(spec, world_size)
        raise _process_too_big(count, world_size, _find_largest(count, least, fits))
    largest = _find_largest(count, least, fits)
    pods = _find_pods(count, world_size, least, largest)
    if pods is not None:
        return build_split(spec, pods)
    raise _unsplittable(count, world_size, least, largest)


def get_least_size(spec: GPUWorkloadSpec) -> int:
    """The fewest GPUs that a pod of the workload may have."""
    requirements = spec.gpu_requirements
    return 2 if requirements.bandwidth and requirements.amount > 1 else 1


def build_split(spec: GPUWorkloadSpec, pods: int) -> Split:
    """The split of a workload into a number of pods that divides its GPUs and processes."""
    count = spec.gpu_requirements.amount
    world_size = _get_world_size(spec) or count
    return Split(pods, count // pods, max(1, world_size // pods))


def _get_world_size(spec: GPUWorkloadSpec) -> int | None:
    """The number of processes; raises `InvalidSpec` if GPUs cannot be divided among them."""
    config = spec.distributed_config
    world_size = None if config is None else config.world_size
    count = spec.gpu_requirements.amount
    if world_size is not None and world_size < count and count % world_size:
        problem = f"{world_size} processes cannot have equally many of {count} GPUs: "
        raise InvalidSpec(UNSPLITTABLE, _WORLD_SIZE, f"{problem}use a divisor of {count}")
    return world_size


def _is_possible(pods: int, count: int, world_size: int | None, least: int) -> bool:
    if count % pods or count // pods < least:
        return False
    return world_size is None or world_size % pods == 0


def _find_largest(count: int, least: int, fits: Callable[[int], bool]) -> int:
    """The most GPUs of one pod, from the least to the count."""
    return next((size for size in range(count, least, -1) if fits(size)), least)


def _find_pods(count: int, world_size: int | None, least: int, largest: int) -> int | None:
    needed = -(-count // largest)
    for pods in range(needed, min(count, _MAX_SURPLUS * needed) + 1):
        if _is_possible(pods, count, world_size, least):
            return pods
    return count if world_size == count and least == 1 else None


def _process_too_big(count: int, world_size: int, largest: int) -> InvalidSpec:
    problem = (
        f"{world_size} processes have {count // world_size} of {count} GPUs each, and no node that "
        f"the workload may use has more than {largest}: use a larger worldSize"
    )
    return InvalidSpec(UNSPLITTABLE, _WORLD_SIZE, problem)


def _unsplittable(count: int, world_size: int | None, least: int, largest: int) -> InvalidSpec:
    def is_valid(size: int) -> bool:
        return _find_pods(size, None, least, largest) is not None

    below = next((size for size in range(count - 1, 0, -1) if is_valid(size)), 1)
    above = next((size for size in range(count + 1, MAX_GPUS + 1) if is_valid(size)), None)
    fix = f"use {' or '.join(str(each) for each in (below, above) if each is not None)}"
    what, has = f"{count} GPUs", f"{largest}"
    each_alone = f"set {_WORLD_SIZE} to {count}"
    if world_size is not None:
        what, has = f"{what} and {world_size} processes", f"{has} GPUs"
    if _find_pods(count, count, least, largest) is None:
        fix = f"{fix}, as minBandwidthGBps rules out pods of one GPU"
    elif world_size is not None:
        fix = each_alone
    else:
        fix = f"{fix}, or {each_alone} for one pod for each GPU"
    problem = (
        f"{what} cannot be split into equal pods: the largest node that the workload may use "
        f"has {has}; {fix}"
    )
    return InvalidSpec(UNSPLITTABLE, _COUNT, problem)
