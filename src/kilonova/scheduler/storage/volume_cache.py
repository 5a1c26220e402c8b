"""Node constraints and volume resources of pods and nodes, kept up to date with the informers.

When a claim or its volume changes, the pods that use it are read again; so are the pods that wait
for a volume of a StorageClass when the class, its free volumes or its storage capacity change. Free
volumes per node are counted for requested pools only, once before each decision.
"""

from dataclasses import replace

from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.pods.changes import RereadPods
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.convert.storage.volume_pools import VolumePool, node_pool_amounts
from kilonova.scheduler.convert.storage.volumes import (
    attach_limits,
    volume_requirements,
    with_volumes,
)
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.storage_v1 import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kilonova.scheduler.storage.index import StorageIndex


class VolumesNotReady(InvalidRequest):
    """The volumes of a pod are not ready, so it cannot be scheduled yet."""

    def __init__(self, why: GangNotReady) -> None:
        super().__init__("spec.volumes", why.reason, why.message)
        self.reason = why.reason
        self._message = why.message

    def __str__(self) -> str:
        return self._message


class VolumeCache:
    """Volume requirements of pods and volume capacity of nodes; `attach` it to the snapshot to
    update."""

    def __init__(self, storage: StorageIndex) -> None:
        self._storage = storage
        self._snapshot = Snapshot()
        self._reread_pods: RereadPods = lambda _pods, _capacity_freed: None
        self._pools: dict[VolumePool, list[PersistentVolume] | None] = {}
        """Requested pools and their free volumes; None if they must be counted again."""
        self._added_amounts: dict[str, dict[str, int]] = {}
        """Amounts that were added to each node's own allocatable resources."""

    def attach(self, snapshot: Snapshot, reread_pods: RereadPods) -> None:
        """Start keeping a snapshot up to date."""
        self._snapshot = snapshot
        self._reread_pods = reread_pods
        self._storage.claims.add_event_handler(self._claim_changed)
        self._storage.volumes.add_event_handler(self._volume_changed)
        self._storage.classes.add_event_handler(self._class_changed)
        self._storage.drivers.add_event_handler(self._driver_changed)
        self._storage.storage_capacities.add_event_handler(self._capacity_changed)
        self._storage.csi_nodes.add_event_handler(self._csi_node_changed)

    def with_volume_needs(self, pod: Pod, member: Member) -> Member:
        """A pod with the requirements of its volumes; `VolumesNotReady` if it cannot be scheduled
        yet."""
        needs = volume_requirements(pod, self._storage, self._snapshot.__contains__)
        if isinstance(needs, GangNotReady):
            raise VolumesNotReady(needs)
        for pool in needs.pools:
            self._pools.setdefault(pool, None)
        return with_volumes(member, needs)

    def with_volumes_in_use(self, pod: Pod, member: Member) -> Member:
        """A bound pod, with the requirements of its volumes as far as they are known."""
        try:
            return self.with_volume_needs(pod, member)
        except VolumesNotReady:
            return member

    def with_volume_capacity(self, node: Node) -> Node:
        """A node with its volume resources: attach limits and free volumes."""
        csi_node = self._storage.csi_nodes.get(("", node.name))
        added = {} if csi_node is None else attach_limits(csi_node)
        for pool, free in self._pools.items():
            added.update(node_pool_amounts(pool, free or (), node.name, node.labels))
        self._added_amounts[node.name] = added
        return replace(node, allocatable={**node.allocatable, **added})

    def node_added_or_removed(self, node: str) -> None:
        """Claims with a deleted selected node may get another one."""
        if node not in self._snapshot:
            self._added_amounts.pop(node, None)
        self._reread_pods(self._storage.pods_with_selected_node(node), False)

    def recount_free_volumes(self) -> bool:
        """Count the free volumes of changed pools; whether any node changed."""
        stale = [pool for pool, free in self._pools.items() if free is None]
        for pool in stale:
            volumes = self._storage.volumes_of(pool.storage_class)
            self._pools[pool] = [volume for volume in volumes if pool.matches(volume)]
        changed = [self._refresh_node(node) for node in self._snapshot.nodes()] if stale else []
        return any(changed)

    def _refresh_node(self, node: Node) -> bool:
        before = self._added_amounts.get(node.name, {})
        own = {name: each for name, each in node.allocatable.items() if name not in before}
        new = self.with_volume_capacity(replace(node, allocatable=own))
        if new.allocatable == node.allocatable:
            return False
        self._snapshot.put_node(new)
        return True

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        claim = new or old
        assert claim is not None
        self._reread_pods(self._storage.pods_of(claim.key), False)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        versions = [volume for volume in (old, new) if volume is not None]
        for volume in versions:
            reference = volume.spec.claim_ref
            if reference is not None:
                pods = self._storage.pods_of(f"{reference.namespace}/{reference.name}")
                self._reread_pods(pods, False)
        # A volume that stays bound, as most do, does not concern other pods.
        if all(volume.spec.claim_ref is not None for volume in versions):
            return
        for storage_class in dict.fromkeys(volume.storage_class for volume in versions):
            for pool in self._pools:
                if pool.storage_class == storage_class:
                    self._pools[pool] = None
            self._reread_pods(self._storage.pods_waiting_for_class(storage_class), True)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        storage_class = new or old
        assert storage_class is not None
        pods = self._storage.pods_waiting_for_class(storage_class.metadata.name)
        self._reread_pods(pods, False)

    def _driver_changed(self, old: CsiDriver | None, new: CsiDriver | None) -> None:
        driver = new or old
        assert driver is not None
        for storage_class in self._storage.classes.objects():
            if storage_class.provisioner == driver.metadata.name:
                self._class_changed(None, storage_class)

    def _capacity_changed(
        self, old: CsiStorageCapacity | None, new: CsiStorageCapacity | None
    ) -> None:
        for name in {each.storage_class_name for each in (old, new) if each is not None}:
            self._reread_pods(self._storage.pods_waiting_for_class(name), False)

    def _csi_node_changed(self, old: CsiNode | None, new: CsiNode | None) -> None:
        changed = new or old
        assert changed is not None
        name = changed.metadata.name
        if name in self._snapshot:
            node_changed = self._refresh_node(self._snapshot.node(self._snapshot.row(name)))
            self._reread_pods((), node_changed)
