"""Which devices there are, and on which nodes they can be used."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kilonova.scheduler.core.allocating import Candidate
from kilonova.scheduler.core.claims import Counter, Device, DeviceId, Option
from kilonova.scheduler.core.deviceuse import amounts_taken
from kilonova.scheduler.core.labels import Labels
from kilonova.scheduler.core.requirements import NodeTerm
from kilonova.scheduler.core.taints import intolerable

ANY = ""
"""In the place of a node: all of them."""

PoolId = tuple[str, str]
"""A driver, and the name of one of its pools."""
Matches = Callable[[str, Device], bool]
"""Whether a device meets a selector."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices of one driver that are published together. While not all of them are known there are
    none. `nodes` are those on which there may be some."""

    devices: tuple[Device, ...] = ()
    counters: Mapping[Counter, int] = field(default_factory=dict[Counter, int])
    complete: bool = True
    nodes: frozenset[str] = frozenset()


class Inventory:
    """The pools of a cluster. `names`, `rows` and `labels` are the snapshot's."""

    def __init__(self, names: list[str], rows: dict[str, int], labels: Labels) -> None:
        self.devices: dict[DeviceId, Device] = {}
        self.counters: dict[Counter, int] = {}
        self.matches: Matches = _never
        self._names, self._rows, self._labels = names, rows, labels
        self._pools: dict[PoolId, Pool] = {}
        self._pools_on: dict[str, set[PoolId]] = {}
        self._wide: set[PoolId] = set()
        """Pools of which devices, or counters, are for several nodes."""
        self._visible: dict[int, list[Device]] = {}
        self._candidates: dict[int, dict[Option, list[Candidate]]] = {}

    def copy(self, names: list[str], rows: dict[str, int], labels: Labels) -> "Inventory":
        """The same, for a copy of the snapshot."""
        other = Inventory(names, rows, labels)
        other.matches = self.matches
        for id, pool in self._pools.items():
            other.put(id, pool)
        return other

    @property
    def is_coupled(self) -> bool:
        """Whether devices are given out to several nodes: who gets them on one takes them from
        others."""
        return bool(self._wide)

    def put(self, id: PoolId, pool: Pool | None) -> list[int]:
        """Takes what is known of a pool now, None if it is gone; says to which rows it matters."""
        old = self._pools.pop(id, None)
        if old is not None:
            for device in old.devices:
                del self.devices[device.id]
            for counter in old.counters:
                del self.counters[counter]
            for node in old.nodes:
                self._pools_on[node].discard(id)
        self._wide.discard(id)
        if pool is not None:
            self._pools[id] = pool
            self.devices.update((device.id, device) for device in pool.devices)
            self.counters.update(pool.counters)
            for node in pool.nodes:
                self._pools_on.setdefault(node, set()).add(id)
            if _is_wide(pool):
                self._wide.add(id)
        nodes = {node for each in (old, pool) if each is not None for node in each.nodes}
        rows = self._rows_of(nodes)
        for row in rows:
            self.forget(row)
        return rows

    def ids_of(self, id: PoolId) -> set[DeviceId]:
        """The devices of a pool."""
        pool = self._pools.get(id)
        return set() if pool is None else {device.id for device in pool.devices}

    def forget(self, row: int) -> None:
        """A node, or its labels, are others now."""
        self._visible.pop(row, None)
        self._candidates.pop(row, None)

    def name(self, row: int) -> str:
        return self._names[row]

    def suiting(self, option: Option, row: int) -> list[Candidate]:
        """The devices of a node that would do for an option, whoever has them."""
        known = self._candidates.setdefault(row, {})
        found = known.get(option)
        if found is None:
            found = known[option] = []
            for device in self.on(row):
                amounts = amounts_taken(device, option.capacity)
                if (
                    amounts is not None
                    and not intolerable(option.tolerations, device.taints)
                    and all(self.matches(selector, device) for selector in option.selectors)
                ):
                    found.append(Candidate(device, amounts if device.shared else ()))
        return found

    def on(self, row: int) -> list[Device]:
        """The devices that can be used on a node."""
        found = self._visible.get(row)
        if found is None:
            node = self._names[row]
            found = self._visible[row] = [
                device
                for id in sorted(self._pools_at(node))
                for device in self._pools[id].devices
                if self.reaches(device.node, device.terms, row)
            ]
        return found

    def reaches(self, node: str, terms: tuple[NodeTerm, ...], row: int) -> bool:
        """Whether what can be used on a node, else where a term holds, can be on this one."""
        if node:
            return node == self._names[row]
        return not terms or bool(self._labels.any_holds(terms, np.array([row], np.intp))[0])

    def is_settled(self, row: int) -> bool:
        """Whether it is known what "all" devices of a node are."""
        return all(self._pools[id].complete for id in self._pools_at(self._names[row]))

    def rows_seeing(self, devices: Iterable[DeviceId]) -> list[int]:
        """Rows to which it matters who has these devices."""
        pools = {(device.driver, device.pool) for device in devices}
        nodes = (self._pools[id].nodes for id in pools if id in self._pools)
        return self._rows_of({node for each in nodes for node in each})

    def looked_at(self) -> list[int]:
        """All rows that anybody asked about."""
        return list(self._visible)

    def _pools_at(self, node: str) -> set[PoolId]:
        return self._pools_on.get(node, set()) | self._pools_on.get(ANY, set())

    def _rows_of(self, nodes: set[str]) -> list[int]:
        if ANY in nodes:
            return self.looked_at()
        return [self._rows[node] for node in nodes if node in self._rows]


def _is_wide(pool: Pool) -> bool:
    return ANY in pool.nodes or len(pool.nodes) > 1


def _never(_selector: str, _device: Device) -> bool:
    return False
