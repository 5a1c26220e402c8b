"""Policies that place one instance on a fleet of equal GPUs."""

from collections.abc import Sequence
from typing import Protocol

from bench.gpu.streams import h100
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, Gpu, GpuLayout
from kilonova.scheduler.core.gpu.selection import select_devices
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.scoring.mig_demand import MigDemand


class InstancePolicy(Protocol):
    """Where an instance goes."""

    def place(self, masks: Sequence[int], profile: str) -> tuple[int, int] | None:
        """The GPU and the start, given the occupied slices; None where it does not fit."""
        ...


class OrderedStarts:
    """The first GPU with a free start, in a fixed order of starts."""

    def __init__(self, descending: tuple[str, ...] = ()) -> None:
        """`descending` are the sizes of profiles that start as high as possible."""
        self._profiles = {
            each.name: [
                (start, each.mask_at(start))
                for start in sorted(each.starts, reverse=each.name.partition(".")[0] in descending)
            ]
            for each in h100().profiles
        }

    def place(self, masks: Sequence[int], profile: str) -> tuple[int, int] | None:
        starts = self._profiles[profile]
        for gpu, mask in enumerate(masks):
            for start, taken in starts:
                if not taken & mask:
                    return gpu, start
        return None


def first_fit() -> OrderedStarts:
    """The lowest free start of the first GPU."""
    return OrderedStarts()


def fixed_order() -> OrderedStarts:
    """1g and 3g as high as possible, others low."""
    return OrderedStarts(("1g", "3g"))


class SchedulerPlacement:
    """The scheduler's choice on a node with all GPUs, for the demand that it has learnt."""

    def __init__(self, gpus: int) -> None:
        geometry = h100()
        self._layout = GpuLayout(tuple(Gpu(index, mig=geometry) for index in range(gpus)))
        self._demand = MigDemand()

    def place(self, masks: Sequence[int], profile: str) -> tuple[int, int] | None:
        request = GpuRequest(1, profile=profile)
        self._demand.record(Shape(gpu=request))
        free = [0 if mask else MILLI_PER_GPU for mask in masks]
        found = select_devices(self._layout, free, masks, request, demand=self._demand.weights())
        return None if found is None else (found.shares[0].index, found.shares[0].start)
