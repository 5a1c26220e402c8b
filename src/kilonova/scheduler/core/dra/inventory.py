"""The devices of all pools, and on which nodes they can be used."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kilonova.scheduler.core.dra.allocator import CandidateDevice
from kilonova.scheduler.core.dra.claims import Device, DeviceId, DeviceRequestOption, SharedCounter
from kilonova.scheduler.core.dra.device_usage import consumed_capacity
from kilonova.scheduler.core.model.label_columns import LabelColumns
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm
from kilonova.scheduler.core.model.taints import untolerated_taints

ANY_NODE = ""
"""In the place of a node: all nodes."""

PoolId = tuple[str, str]
"""A driver, and the name of one of its pools."""
SelectorMatcher = Callable[[str, Device], bool]
"""Whether a device matches a selector."""


@dataclass(frozen=True, slots=True)
class DevicePool:
    """Devices of one driver that are published together. An incomplete pool has no devices. `nodes`
    are those on which devices of it can be used."""

    devices: tuple[Device, ...] = ()
    counters: Mapping[SharedCounter, int] = field(default_factory=dict[SharedCounter, int])
    complete: bool = True
    nodes: frozenset[str] = frozenset()


class DeviceInventory:
    """The pools of a cluster. `names`, `rows` and `labels` are the snapshot's."""

    def __init__(self, names: list[str], rows: dict[str, int], labels: LabelColumns) -> None:
        self.devices: dict[DeviceId, Device] = {}
        self.counters: dict[SharedCounter, int] = {}
        self.selector_matcher: SelectorMatcher = _match_none
        self._names, self._rows, self._labels = names, rows, labels
        self._pools: dict[PoolId, DevicePool] = {}
        self._pools_on: dict[str, set[PoolId]] = {}
        self._gpu_pools: set[PoolId] = set()
        """Pools with GPUs of nodes."""
        self._multi_node_pools: set[PoolId] = set()
        """Pools with devices, or counters, for several nodes."""
        self._devices_by_row: dict[int, list[Device]] = {}
        self._candidates: dict[int, dict[DeviceRequestOption, list[CandidateDevice]]] = {}

    def copy(
        self, names: list[str], rows: dict[str, int], labels: LabelColumns
    ) -> "DeviceInventory":
        """The same, for a copy of the snapshot."""
        other = DeviceInventory(names, rows, labels)
        other.selector_matcher = self.selector_matcher
        for id, pool in self._pools.items():
            other.put_pool(id, pool)
        return other

    @property
    def has_multi_node_pools(self) -> bool:
        """Whether devices are usable on several nodes: allocating them on one takes them from
        others."""
        return bool(self._multi_node_pools)

    @property
    def has_gpus(self) -> bool:
        """Whether any device is a GPU of a node."""
        return bool(self._gpu_pools)

    def put_pool(self, id: PoolId, pool: DevicePool | None) -> list[int]:
        """Adds or updates a pool, or removes it (None); returns the rows that it affects."""
        old = self._pools.pop(id, None)
        if old is not None:
            for device in old.devices:
                del self.devices[device.id]
            for counter in old.counters:
                del self.counters[counter]
            for node in old.nodes:
                self._pools_on[node].discard(id)
        self._multi_node_pools.discard(id)
        self._gpu_pools.discard(id)
        if pool is not None:
            self._pools[id] = pool
            self.devices.update((device.id, device) for device in pool.devices)
            self.counters.update(pool.counters)
            for node in pool.nodes:
                self._pools_on.setdefault(node, set()).add(id)
            if _is_multi_node(pool):
                self._multi_node_pools.add(id)
            if any(device.gpu is not None for device in pool.devices):
                self._gpu_pools.add(id)
        nodes = {node for each in (old, pool) if each is not None for node in each.nodes}
        rows = self.rows_of(nodes)
        for row in rows:
            self.invalidate_row(row)
        return rows

    def device_ids(self, id: PoolId) -> set[DeviceId]:
        """The devices of a pool."""
        pool = self._pools.get(id)
        return set() if pool is None else {device.id for device in pool.devices}

    def invalidate_row(self, row: int) -> None:
        """Called when a node or its labels changed."""
        self._devices_by_row.pop(row, None)
        self._candidates.pop(row, None)

    def node_name(self, row: int) -> str:
        return self._names[row]

    def candidates(self, option: DeviceRequestOption, row: int) -> list[CandidateDevice]:
        """The devices of a node that match an option, whether free or not."""
        known = self._candidates.setdefault(row, {})
        found = known.get(option)
        if found is None:
            found = known[option] = []
            for device in self.devices_on(row):
                amounts = consumed_capacity(device, option.capacity)
                if (
                    amounts is not None
                    and not untolerated_taints(option.tolerations, device.taints)
                    and all(
                        self.selector_matcher(selector, device) for selector in option.selectors
                    )
                ):
                    found.append(CandidateDevice(device, amounts if device.shared else ()))
        return found

    def devices_on(self, row: int) -> list[Device]:
        """The devices that can be used on a node."""
        found = self._devices_by_row.get(row)
        if found is None:
            node = self._names[row]
            found = self._devices_by_row[row] = [
                device
                for id in sorted(self._pools_of_node(node))
                for device in self._pools[id].devices
                if self.is_reachable(device.node, device.terms, row)
            ]
        return found

    def is_reachable(self, node: str, terms: tuple[NodeSelectorTerm, ...], row: int) -> bool:
        """Whether what is usable on `node`, else where a term matches, is usable on this row."""
        if node:
            return node == self._names[row]
        return not terms or bool(self._labels.matches_any(terms, np.array([row], np.intp))[0])

    def are_pools_complete(self, row: int) -> bool:
        """Whether all devices of a node are known, for requests of all devices."""
        return all(self._pools[id].complete for id in self._pools_of_node(self._names[row]))

    def affected_rows(self, devices: Iterable[DeviceId]) -> list[int]:
        """Rows whose free capacity depends on these devices."""
        pools = {(device.driver, device.pool) for device in devices}
        nodes = (self._pools[id].nodes for id in pools if id in self._pools)
        return self.rows_of({node for each in nodes for node in each})

    def cached_rows(self) -> list[int]:
        """All rows that were looked up."""
        return list(self._devices_by_row)

    def _pools_of_node(self, node: str) -> set[PoolId]:
        return self._pools_on.get(node, set()) | self._pools_on.get(ANY_NODE, set())

    def rows_of(self, nodes: set[str]) -> list[int]:
        """The rows of nodes, as far as they exist."""
        if ANY_NODE in nodes:
            return self.cached_rows()
        return [self._rows[node] for node in nodes if node in self._rows]


def _is_multi_node(pool: DevicePool) -> bool:
    return ANY_NODE in pool.nodes or len(pool.nodes) > 1


def _match_none(_selector: str, _device: Device) -> bool:
    return False
