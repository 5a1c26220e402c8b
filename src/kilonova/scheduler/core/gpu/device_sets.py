"""The score of each set of a node's GPUs, computed for all sets at once.

Eight devices have 256 sets, sixteen 65,536: few enough to examine every one instead of searching
greedily. A **set** is an int with a bit per device; a table has an entry per set.

The score of a set for a preference is 0 … 100. A single device is 100. `None` is 50 whatever the
set. Otherwise there is a base, 50 where the preference is not met; met, it is 90 for one NUMA node,
80 for one PCIe switch, and for NVLink (every two connected) it stays 50, as bandwidth is the
preference itself. Added are up to 50 for bandwidth, up to 20 for latency and up to 10 for affinity.
A set that meets the preference always scores above one that does not.

**Bandwidth** of a set is what each of its devices can exchange with the others in uniform
all-to-all communication: it is limited by the narrowest cut. Behind a switch that is the smallest
port, not the sum over pairs; for devices with direct links, what the worst one has into the set, or
less where the set falls into two weakly linked parts. **Latency** is that of the two devices
furthest apart, **affinity** the fraction of the set that shares a NUMA node.
"""

from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.model.requests import GpuPreference

MAX_DEVICES = 16
"""For more devices there are no tables: all sets count as equal."""
NO_SET = -1.0
"""Score where no set is acceptable."""

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)

_FULL_BANDWIDTH = 900
"""GB/s per device that earn the full score for bandwidth."""
_MAX_EXACT_DEVICES = 8
"""Up to this number of devices every cut is examined; above it, only those around one device."""
_SAME_NUMA, _SAME_SWITCH, _NVLINK = 0.5, 0.75, 1.0
"""Proximity of two devices; 0 where they are on different NUMA nodes, or it is not known."""


class DeviceSets:
    """Tables over all sets of devices."""

    def __init__(
        self,
        ports: tuple[int, ...],
        links: tuple[tuple[int, int, int], ...],
        numa: tuple[int, ...],
        pcie: tuple[str, ...],
    ) -> None:
        self.count = len(ports)
        self._ports = np.array(ports, np.float64)
        self._link_bandwidths = np.zeros((self.count, self.count))
        for first, second, speed in links:
            self._link_bandwidths[first, second] = self._link_bandwidths[second, first] = speed
        self._numa = [_member_mask(numa, node) for node in sorted(set(numa) - {-1})]
        self._pcie = [_member_mask(pcie, switch) for switch in sorted(set(pcie) - {""})]
        self._of_size: dict[int, Ints] = {}
        self._best_scores: dict[tuple[int, GpuPreference, int], Floats] = {}
        self._disjoint_counts: dict[tuple[int, GpuPreference, int], Ints] = {}

    def best_scores(self, size: int, preference: GpuPreference, bandwidth: int) -> Floats:
        """For every set of free devices, the score of the best `size` of them; -1 if none is
        acceptable."""
        key = size, preference, bandwidth
        found = self._best_scores.get(key)
        if found is None:
            found = np.full(1 << self.count, NO_SET)
            feasible = self._acceptable_sets(size, preference, bandwidth)
            found[feasible] = np.minimum(self._raw_scores[preference][feasible], 100)
            _spread_to_supersets(found, self.count)
            self._best_scores[key] = found
        return found

    def best_set(
        self, free: int, size: int, preference: GpuPreference, bandwidth: int, further_pods: int = 0
    ) -> int | None:
        """The best `size` of the free devices; None where no set is acceptable.

        Between equal scores, the one that leaves the best groups intact, then the lowest indices.
        Sets after which fewer than `further_pods` more fit are skipped, if others remain.
        """
        feasible = self._acceptable_sets(size, preference, bandwidth)
        inside = feasible[feasible & ~free == 0]
        if not len(inside):
            return None
        if further_pods and self.count <= _MAX_EXACT_DEVICES:
            rest = free & ~inside
            capacities = self.count_disjoint_sets(size, preference, bandwidth, rest)[rest]
            inside = inside[capacities >= min(further_pods, int(capacities.max()))]
        scores = self._raw_scores[preference][inside]
        equal = inside[scores == scores.max()]
        return int(equal[self._remaining_value[free & ~equal].argmax()])

    def count_disjoint_sets(
        self, size: int, preference: GpuPreference, bandwidth: int, free_sets: Ints
    ) -> Ints:
        """How many disjoint acceptable sets of `size` devices fit into each set of free devices.

        Returns a table of which at least the requested sets are filled in. Exact up to 8 devices;
        above, the result of taking the best set repeatedly.
        """
        key = size, preference, bandwidth
        table = self._disjoint_counts.get(key)
        if table is None:
            table = self._disjoint_counts[key] = np.full(1 << self.count, -1)
        for free in np.unique(free_sets[table[free_sets] < 0]).tolist():
            self._count_disjoint(free, *key, table)
        return table

    def _count_disjoint(
        self, free: int, size: int, preference: GpuPreference, bandwidth: int, table: Ints
    ) -> int:
        if table[free] >= 0:
            return int(table[free])
        requirement = size, preference, bandwidth
        lowest = free & -free
        if free.bit_count() < size:
            feasible, capacity = [], 0
        elif self.count > _MAX_EXACT_DEVICES:
            best = self.best_set(free, *requirement)
            feasible, capacity = [] if best is None else [best], 0
        else:
            sets = self._acceptable_sets(*requirement)
            feasible = sets[(sets & lowest != 0) & (sets & ~free == 0)].tolist()
            capacity = self._count_disjoint(free & ~lowest, *requirement, table)
        for taken in feasible:
            capacity = max(capacity, 1 + self._count_disjoint(free & ~taken, *requirement, table))
        table[free] = capacity
        return capacity

    def score(self, devices: int, preference: GpuPreference) -> float:
        """The score of one set."""
        return min(float(self._raw_scores[preference][devices]), 100.0)

    @cached_property
    def bandwidth(self) -> Floats:
        """GB/s of every set; infinite for a single device."""
        speed = self._cut_bandwidth
        switched = _fold(self._ports, np.inf, np.minimum)
        speed = np.where(switched > 0, switched, speed)
        speed[self._sizes < 2] = np.inf
        return speed

    @cached_property
    def nvlink_connected(self) -> Bools:
        """Whether every two devices of a set are connected by NVLink."""
        return self._proximity >= _NVLINK

    def _acceptable_sets(self, size: int, preference: GpuPreference, bandwidth: int) -> Ints:
        """The acceptable sets of a size, in the order of their devices' indices."""
        found = self._of_size.get(size)
        if found is None:
            found = np.flatnonzero(self._sizes == size)
            found = found[np.argsort(-self._reversed[found])]
            self._of_size[size] = found
        if bandwidth > 0:
            found = found[self.bandwidth[found] >= bandwidth]
        if preference is GpuPreference.NVLINK_REQUIRED:
            found = found[self.nvlink_connected[found]]
        return found

    @cached_property
    def _raw_scores(self) -> dict[GpuPreference, Floats]:
        """Scores before they are capped at 100, so that better sets stay distinguishable."""
        speed = 50 * np.minimum(self.bandwidth / _FULL_BANDWIDTH, 1)
        rest = 20 * self._proximity + 10 * self._numa_affinity
        nvlink = np.where(self.nvlink_connected, 50 + speed + rest, np.minimum(50 + rest, 70))
        numa = _preference_score(self._max_on_one_numa_node == self._sizes, 90, speed + rest)
        pcie = _preference_score(self._max_on_one_switch == self._sizes, 80, speed + rest)
        raws = {
            GpuPreference.NONE: np.full(1 << self.count, 50.0),
            GpuPreference.NVLINK_OPTIMAL: nvlink,
            GpuPreference.NVLINK_REQUIRED: nvlink,
            GpuPreference.SAME_NUMA: numa,
            GpuPreference.SAME_PCIE_SWITCH: pcie,
        }
        for raw in raws.values():
            np.round(raw, 3, out=raw)
            raw[self._sizes == 1] = 100
        return raws

    @cached_property
    def _cut_bandwidth(self) -> Floats:
        """Bandwidth over direct links."""
        if not self._link_bandwidths.any():
            return np.zeros(1 << self.count)
        sets = np.arange(1 << self.count)
        if self.count > _MAX_EXACT_DEVICES:
            speed = np.full(1 << self.count, np.inf)
            for index, row in enumerate(self._link_bandwidths):
                around = _fold(row, 0.0, np.add)
                around[sets >> index & 1 == 0] = np.inf
                np.minimum(speed, around, out=speed)
            return speed
        inside = _pairs(self._link_bandwidths, np.add, 0.0)
        speed = np.full(1 << self.count, np.inf)
        for part in sets[1:].tolist():
            whole = sets[(sets & part == part) & (sets != part)]
            rest = whole & ~part
            crossing = self._sizes[part] * self._sizes[rest] / (self._sizes[whole] - 1)
            cut = (inside[whole] - inside[part] - inside[rest]) / crossing
            speed[whole] = np.minimum(speed[whole], cut)
        return np.maximum(speed, 0)

    @cached_property
    def _proximity(self) -> Floats:
        """Proximity of the two devices of a set that are furthest apart."""
        near = np.zeros((self.count, self.count))
        for groups, value in ((self._numa, _SAME_NUMA), (self._pcie, _SAME_SWITCH)):
            for group in groups:
                members = [index for index in range(self.count) if group >> index & 1]
                near[np.ix_(members, members)] = value
        near[self._link_bandwidths > 0] = _NVLINK
        switched = np.flatnonzero(self._ports > 0)
        near[np.ix_(switched, switched)] = _NVLINK
        return _pairs(near, np.minimum, _NVLINK)

    @cached_property
    def _numa_affinity(self) -> Floats:
        return self._max_on_one_numa_node / np.maximum(self._sizes, 1)

    @cached_property
    def _remaining_value(self) -> Ints:
        """The value of a set of free devices for later pods: the larger the number, the better.

        In this order: most devices connected by NVLink, bandwidth of all links, most on one NUMA
        node, most behind one switch, then the concentration on NUMA nodes and switches.
        """
        cliques = np.where(self.nvlink_connected, self._sizes, 0)
        _spread_to_supersets(cliques, self.count)
        links = _pairs(np.minimum(self._link_bandwidths, (1 << 12) - 1), np.add, 0.0).astype(
            np.int64
        )
        value = cliques << 20 | links
        value = (value << 5 | self._max_on_one_numa_node) << 5 | self._max_on_one_switch
        for groups in (self._numa, self._pcie):
            value = value << 9 | sum(self._count_in_group(group) ** 2 for group in groups)
        return value

    @cached_property
    def _max_on_one_numa_node(self) -> Ints:
        """Maximum number of devices of a set on one NUMA node."""
        return self._max_in_group(self._numa)

    @cached_property
    def _max_on_one_switch(self) -> Ints:
        """Maximum number of devices of a set behind one PCIe switch."""
        return self._max_in_group(self._pcie)

    def _max_in_group(self, groups: list[int]) -> Ints:
        largest = np.zeros(1 << self.count, np.int64)
        for group in groups:
            np.maximum(largest, self._count_in_group(group), out=largest)
        return largest

    def _count_in_group(self, group: int) -> Ints:
        return _fold(group >> np.arange(self.count) & 1, 0, np.add)

    @cached_property
    def _sizes(self) -> Ints:
        return _fold(np.ones(self.count, np.int64), 0, np.add)

    @cached_property
    def _reversed(self) -> Ints:
        """Sets with the lowest device as the highest bit: of equal size, the larger comes first."""
        return _fold(1 << np.arange(self.count, dtype=np.int64)[::-1], 0, np.add)


def _preference_score(met: Bools, base: int, more: Floats) -> Floats:
    return np.where(met, base + more, np.minimum(50 + more, base - 1))


def _member_mask(values: tuple[object, ...], value: object) -> int:
    return sum(1 << index for index, other in enumerate(values) if other == value)


def _fold(values: NDArray[Number], start: float, join: np.ufunc) -> NDArray[Number]:
    """A value per device, combined over every set."""
    table = np.full(1 << len(values), start, values.dtype)
    for index, value in enumerate(values):
        table[1 << index : 2 << index] = join(table[: 1 << index], value)
    return table


def _pairs(values: Floats, join: np.ufunc, start: float) -> Floats:
    """A value per pair of devices, combined over all pairs within every set."""
    table = np.full(1 << len(values), start)
    for index in range(len(values)):
        row = _fold(values[index, :index], start, join)
        table[1 << index : 2 << index] = join(table[: 1 << index], row)
    return table


def _spread_to_supersets(table: NDArray[Number], count: int) -> None:
    """Replaces the value of every set by the maximum over its subsets."""
    for index in range(count):
        halves = table.reshape(-1, 2, 1 << index)
        np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
