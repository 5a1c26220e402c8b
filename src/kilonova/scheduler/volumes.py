"""Keeps what volumes say of pods and nodes true, as the caches tell it.

Whatever changes about a claim or its volume, the pods that use it are read anew; so are the pods
that wait for a volume of a class when the class changes, its free volumes, or what is left to make
some from. What nodes have of pools of free volumes is counted for pools that pods asked for, once
before each decision.
"""

from dataclasses import replace

from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.devices import Reread
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.freevolumes import Pool, pool_amounts
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.volumes import attach_limits, volume_needs, with_volumes
from kilonova.scheduler.shelves import Shelves
from kilonova.scheduler.storage import (
    CsiNode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    VolumeClaim,
)


class VolumesNotReady(Misread):
    """A pod has to wait because of its volumes."""

    def __init__(self, why: NotYet) -> None:
        super().__init__("spec.volumes", why.reason, why.message)
        self.reason = why.reason
        self._message = why.message

    def __str__(self) -> str:
        return self._message


class Volumes:
    """What volumes say. `attach` it to the snapshot that is to be kept true."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._snapshot = Snapshot()
        self._reread: Reread = lambda _pods, _gained: None
        self._pools: dict[Pool, list[PersistentVolume] | None] = {}
        """Pools that pods asked for, and what is free of each; None if it is to be counted."""
        self._added: dict[str, dict[str, int]] = {}
        """What was added to what each node says of itself."""

    def attach(self, snapshot: Snapshot, reread: Reread) -> None:
        """Begins to keep a snapshot true."""
        self._snapshot = snapshot
        self._reread = reread
        self._shelves.claims.subscribe(self._claim_changed)
        self._shelves.volumes.subscribe(self._volume_changed)
        self._shelves.classes.subscribe(self._class_changed)
        self._shelves.drivers.subscribe(self._driver_changed)
        self._shelves.left.subscribe(self._capacity_changed)
        self._shelves.csi_nodes.subscribe(self._csi_node_changed)

    def asked(self, pod: Pod, member: Member) -> Member:
        """A pod that asks for what its volumes need, too; `VolumesNotReady` if it has to wait."""
        needs = volume_needs(pod, self._shelves, self._snapshot.__contains__)
        if isinstance(needs, NotYet):
            raise VolumesNotReady(needs)
        for pool in needs.pools:
            self._pools.setdefault(pool, None)
        return with_volumes(member, needs)

    def used(self, pod: Pod, member: Member) -> Member:
        """A pod that has a node, with what its volumes take of it as far as that is known."""
        try:
            return self.asked(pod, member)
        except VolumesNotReady:
            return member

    def added_to(self, node: Node) -> Node:
        """A node that also has what volumes need: places to attach them, and free ones."""
        csi_node = self._shelves.csi_nodes.get(("", node.name))
        added = {} if csi_node is None else attach_limits(csi_node)
        for pool, free in self._pools.items():
            added.update(pool_amounts(pool, free or (), node.name, node.labels))
        self._added[node.name] = added
        return replace(node, allocatable={**node.allocatable, **added})

    def node_came_or_went(self, node: str) -> None:
        """Claims whose volumes are made for a node that is not there may have another."""
        if node not in self._snapshot:
            self._added.pop(node, None)
        self._reread(self._shelves.pods_sent_to(node), False)

    def refresh(self) -> bool:
        """Counts free volumes where some changed; whether nodes have others now."""
        stale = [pool for pool, free in self._pools.items() if free is None]
        for pool in stale:
            volumes = self._shelves.volumes_of(pool.storage_class)
            self._pools[pool] = [volume for volume in volumes if pool.holds(volume)]
        changed = [self._add_again(node) for node in self._snapshot.nodes()] if stale else []
        return any(changed)

    def _add_again(self, node: Node) -> bool:
        before = self._added.get(node.name, {})
        own = {name: each for name, each in node.allocatable.items() if name not in before}
        new = self.added_to(replace(node, allocatable=own))
        if new.allocatable == node.allocatable:
            return False
        self._snapshot.put_node(new)
        return True

    def _claim_changed(self, old: VolumeClaim | None, new: VolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        self._reread(self._shelves.pods_of(claim.key), False)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        known = [volume for volume in (old, new) if volume is not None]
        for volume in known:
            reference = volume.spec.claim_ref
            if reference is not None:
                pods = self._shelves.pods_of(f"{reference.namespace}/{reference.name}")
                self._reread(pods, False)
        # What stays bound, as most do, says nothing to others.
        if all(volume.spec.claim_ref is not None for volume in known):
            return
        for storage_class in dict.fromkeys(volume.storage_class for volume in known):
            for pool in self._pools:
                if pool.storage_class == storage_class:
                    self._pools[pool] = None
            self._reread(self._shelves.pods_that_wait_for(storage_class), True)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        storage_class = new or old
        assert storage_class is not None
        pods = self._shelves.pods_that_wait_for(storage_class.metadata.name)
        self._reread(pods, False)

    def _driver_changed(self, old: StorageDriver | None, new: StorageDriver | None) -> None:
        driver = new or old
        assert driver is not None
        for storage_class in self._shelves.classes.objects():
            if storage_class.provisioner == driver.metadata.name:
                self._class_changed(None, storage_class)

    def _capacity_changed(self, old: StorageCapacity | None, new: StorageCapacity | None) -> None:
        for name in {each.storage_class_name for each in (old, new) if each is not None}:
            self._reread(self._shelves.pods_that_wait_for(name), False)

    def _csi_node_changed(self, old: CsiNode | None, new: CsiNode | None) -> None:
        changed = new or old
        assert changed is not None
        name = changed.metadata.name
        if name in self._snapshot:
            more = self._add_again(self._snapshot.node(self._snapshot.row(name)))
            self._reread((), more)
