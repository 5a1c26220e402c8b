"""How good each set of a node's GPUs is, worked out for all sets at once.

Eight devices have 256 sets, sixteen 65,536: few enough to look at every one instead of guessing
with a greedy search. A **set** is an int with a bit per device; a table has an entry per set.

The score of a set for a preference is 0 … 100. A single device is 100. `None` is 50 whatever the
set. Otherwise there is a base, 50 where the wish is not met; met, it is 90 for one NUMA node, 80
for one PCIe switch, and for NVLink (every two joined) it stays 50, as bandwidth is the wish itself.
To this come up to 50 for bandwidth, up to 20 for latency and up to 10 for affinity. A set that
meets the wish is always above one that does not.

**Bandwidth** of a set is what each of its devices can exchange with the others when all talk to all
alike: the narrowest cut through it says. Behind a switch that is the smallest port, not the sum
over pairs; of devices joined directly, what the worst one has into the set, or less where the set
falls into halves. **Latency** is that of the two that are furthest apart, **affinity** the part of
the set that shares a NUMA node.
"""

from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import Preference

MOST = 16
"""Of more devices no tables are made: they count as equal."""
NOT_AT_ALL = -1.0
"""Score where no set will do."""

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Number = TypeVar("Number", np.int64, np.float64)

_FULL_SPEED = 900
"""GB/s of a device that earn the whole of the bandwidth's part."""
_CUTS = 8
"""Of so many devices every cut is looked at; of more, only those around one device."""
_SAME_NUMA, _SAME_SWITCH, _JOINED = 0.5, 0.75, 1.0
"""How near two devices are; 0 where they are on different NUMA nodes, or it is not known."""


class Subsets:
    """Tables over all sets of devices, given what is known of each."""

    def __init__(
        self,
        ports: tuple[int, ...],
        links: tuple[tuple[int, int, int], ...],
        numa: tuple[int, ...],
        pcie: tuple[str, ...],
    ) -> None:
        self.count = len(ports)
        self._ports = np.array(ports, np.float64)
        self._speeds = np.zeros((self.count, self.count))
        for first, second, speed in links:
            self._speeds[first, second] = self._speeds[second, first] = speed
        self._numa = [_members(numa, node) for node in sorted(set(numa) - {-1})]
        self._pcie = [_members(pcie, switch) for switch in sorted(set(pcie) - {""})]
        self._of_size: dict[int, Ints] = {}
        self._best: dict[tuple[int, Preference, int], Floats] = {}
        self._rooms: dict[tuple[int, Preference, int], Ints] = {}

    def best_score(self, size: int, preference: Preference, bandwidth: int) -> Floats:
        """For every set of free devices, the score of the best `size` of them; -1: none will do."""
        key = size, preference, bandwidth
        found = self._best.get(key)
        if found is None:
            found = np.full(1 << self.count, NOT_AT_ALL)
            able = self._able(size, preference, bandwidth)
            found[able] = np.minimum(self._raws[preference][able], 100)
            _spread_to_supersets(found, self.count)
            self._best[key] = found
        return found

    def best(
        self, free: int, size: int, preference: Preference, bandwidth: int, further: int = 0
    ) -> int | None:
        """The best `size` of the free devices; None where no set will do.

        Between equals, the one that leaves the best groups intact, then the lowest indices. Sets
        after which fewer than `further` more can be taken are passed over, if others remain.
        """
        able = self._able(size, preference, bandwidth)
        inside = able[able & ~free == 0]
        if not len(inside):
            return None
        if further and self.count <= _CUTS:
            rest = free & ~inside
            rooms = self.rooms(size, preference, bandwidth, rest)[rest]
            inside = inside[rooms >= min(further, int(rooms.max()))]
        scores = self._raws[preference][inside]
        equal = inside[scores == scores.max()]
        return int(equal[self._intact[free & ~equal].argmax()])

    def rooms(self, size: int, preference: Preference, bandwidth: int, asked: Ints) -> Ints:
        """How often `size` devices can be taken from a set that is free, each time a good set.

        A table of which at least the sets that are asked for are filled in. Exact up to 8 devices;
        of more, so often as it goes when each time the best are taken.
        """
        key = size, preference, bandwidth
        table = self._rooms.get(key)
        if table is None:
            table = self._rooms[key] = np.full(1 << self.count, -1)
        for free in np.unique(asked[table[asked] < 0]).tolist():
            self._room(free, *key, table)
        return table

    def _room(
        self, free: int, size: int, preference: Preference, bandwidth: int, table: Ints
    ) -> int:
        if table[free] >= 0:
            return int(table[free])
        wish = size, preference, bandwidth
        lowest = free & -free
        if free.bit_count() < size:
            able, room = [], 0
        elif self.count > _CUTS:
            best = self.best(free, *wish)
            able, room = [] if best is None else [best], 0
        else:
            sets = self._able(*wish)
            able = sets[(sets & lowest != 0) & (sets & ~free == 0)].tolist()
            room = self._room(free & ~lowest, *wish, table)
        for taken in able:
            room = max(room, 1 + self._room(free & ~taken, *wish, table))
        table[free] = room
        return room

    def score(self, devices: int, preference: Preference) -> float:
        """The score of one set."""
        return min(float(self._raws[preference][devices]), 100.0)

    @cached_property
    def bandwidth(self) -> Floats:
        """GB/s of every set; unlimited for a single device."""
        speed = self._cut_speed
        switched = _fold(self._ports, np.inf, np.minimum)
        speed = np.where(switched > 0, switched, speed)
        speed[self._sizes < 2] = np.inf
        return speed

    @cached_property
    def joined(self) -> Bools:
        """Whether every two devices of a set are joined by NVLink."""
        return self._nearness >= _JOINED

    def _able(self, size: int, preference: Preference, bandwidth: int) -> Ints:
        """The sets of a size that will do, in the order of their devices' indices."""
        found = self._of_size.get(size)
        if found is None:
            found = np.flatnonzero(self._sizes == size)
            found = found[np.argsort(-self._reversed[found])]
            self._of_size[size] = found
        if bandwidth > 0:
            found = found[self.bandwidth[found] >= bandwidth]
        if preference is Preference.NVLINK_REQUIRED:
            found = found[self.joined[found]]
        return found

    @cached_property
    def _raws(self) -> dict[Preference, Floats]:
        """Scores before they are cut off at 100, so that what is better stays so."""
        speed = 50 * np.minimum(self.bandwidth / _FULL_SPEED, 1)
        rest = 20 * self._nearness + 10 * self._affinity
        nvlink = np.where(self.joined, 50 + speed + rest, np.minimum(50 + rest, 70))
        numa = _wished(self._on_a_node == self._sizes, 90, speed + rest)
        pcie = _wished(self._on_a_switch == self._sizes, 80, speed + rest)
        raws = {
            Preference.NONE: np.full(1 << self.count, 50.0),
            Preference.NVLINK_OPTIMAL: nvlink,
            Preference.NVLINK_REQUIRED: nvlink,
            Preference.SAME_NUMA: numa,
            Preference.SAME_PCIE_SWITCH: pcie,
        }
        for raw in raws.values():
            np.round(raw, 3, out=raw)
            raw[self._sizes == 1] = 100
        return raws

    @cached_property
    def _cut_speed(self) -> Floats:
        """Bandwidth over direct links."""
        if not self._speeds.any():
            return np.zeros(1 << self.count)
        sets = np.arange(1 << self.count)
        if self.count > _CUTS:
            speed = np.full(1 << self.count, np.inf)
            for index, row in enumerate(self._speeds):
                around = _fold(row, 0.0, np.add)
                around[sets >> index & 1 == 0] = np.inf
                np.minimum(speed, around, out=speed)
            return speed
        inside = _pairs(self._speeds, np.add, 0.0)
        speed = np.full(1 << self.count, np.inf)
        for part in sets[1:].tolist():
            whole = sets[(sets & part == part) & (sets != part)]
            rest = whole & ~part
            crossing = self._sizes[part] * self._sizes[rest] / (self._sizes[whole] - 1)
            cut = (inside[whole] - inside[part] - inside[rest]) / crossing
            speed[whole] = np.minimum(speed[whole], cut)
        return np.maximum(speed, 0)

    @cached_property
    def _nearness(self) -> Floats:
        """How near the two devices of a set are that are furthest apart."""
        near = np.zeros((self.count, self.count))
        for groups, value in ((self._numa, _SAME_NUMA), (self._pcie, _SAME_SWITCH)):
            for group in groups:
                members = [index for index in range(self.count) if group >> index & 1]
                near[np.ix_(members, members)] = value
        near[self._speeds > 0] = _JOINED
        switched = np.flatnonzero(self._ports > 0)
        near[np.ix_(switched, switched)] = _JOINED
        return _pairs(near, np.minimum, _JOINED)

    @cached_property
    def _affinity(self) -> Floats:
        return self._on_a_node / np.maximum(self._sizes, 1)

    @cached_property
    def _intact(self) -> Ints:
        """What a set of free devices is good for: the larger the number, the better.

        In this order: most devices joined by NVLink, bandwidth of all links, most on one NUMA node,
        most behind one switch, then how well all keep together on nodes and switches.
        """
        cliques = np.where(self.joined, self._sizes, 0)
        _spread_to_supersets(cliques, self.count)
        links = _pairs(np.minimum(self._speeds, (1 << 12) - 1), np.add, 0.0).astype(np.int64)
        value = cliques << 20 | links
        value = (value << 5 | self._on_a_node) << 5 | self._on_a_switch
        for groups in (self._numa, self._pcie):
            value = value << 9 | sum(self._inside(group) ** 2 for group in groups)
        return value

    @cached_property
    def _on_a_node(self) -> Ints:
        """How many devices of a set are on the same NUMA node, at most."""
        return self._largest(self._numa)

    @cached_property
    def _on_a_switch(self) -> Ints:
        """How many devices of a set are behind the same PCIe switch, at most."""
        return self._largest(self._pcie)

    def _largest(self, groups: list[int]) -> Ints:
        largest = np.zeros(1 << self.count, np.int64)
        for group in groups:
            np.maximum(largest, self._inside(group), out=largest)
        return largest

    def _inside(self, group: int) -> Ints:
        return _fold(group >> np.arange(self.count) & 1, 0, np.add)

    @cached_property
    def _sizes(self) -> Ints:
        return _fold(np.ones(self.count, np.int64), 0, np.add)

    @cached_property
    def _reversed(self) -> Ints:
        """Sets with the lowest device as the highest bit: of equal size, the larger comes first."""
        return _fold(1 << np.arange(self.count, dtype=np.int64)[::-1], 0, np.add)


def _wished(met: Bools, base: int, more: Floats) -> Floats:
    return np.where(met, base + more, np.minimum(50 + more, base - 1))


def _members(values: tuple[object, ...], value: object) -> int:
    return sum(1 << index for index, other in enumerate(values) if other == value)


def _fold(values: NDArray[Number], start: float, join: np.ufunc) -> NDArray[Number]:
    """A value per device, joined over every set."""
    table = np.full(1 << len(values), start, values.dtype)
    for index, value in enumerate(values):
        table[1 << index : 2 << index] = join(table[: 1 << index], value)
    return table


def _pairs(values: Floats, join: np.ufunc, start: float) -> Floats:
    """A value per pair of devices, joined over all pairs within every set."""
    table = np.full(1 << len(values), start)
    for index in range(len(values)):
        row = _fold(values[index, :index], start, join)
        table[1 << index : 2 << index] = join(table[: 1 << index], row)
    return table


def _spread_to_supersets(table: NDArray[Number], count: int) -> None:
    """Gives every set the largest value of its subsets."""
    for index in range(count):
        halves = table.reshape(-1, 2, 1 << index)
        np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
