"""Keeps the devices that drivers publish, and the claims to them, as the caches tell them.

Whatever changes about a claim, the pods that use it are read anew. So are all pods with claims when
a class of devices changes, which is rare.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from kilonova.kube import Store
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.deviceobjects import DeviceClass, ResourceClaim, ResourceSlice
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.reading.allocations import written_of
from kilonova.scheduler.reading.cel import Selectors
from kilonova.scheduler.reading.claims import ANY_OF_CLASS, claim_keys, claimed
from kilonova.scheduler.reading.extendedresources import (
    ExtendedClaim,
    extended_claim_of,
    with_extended_claim,
)
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.slices import pool_of

Reread = Callable[[Iterable[str], bool], None]
"""Is told of pods that may ask for something else now, and whether there may be more room."""

_BY_POOL = "pool"
_BY_CLAIM = "resource claim"
_BY_RESOURCE = "extended resource"


class Devices:
    """Slices, classes and claims. `attach` it to the snapshot that is to be kept true."""

    def __init__(
        self,
        slices: Store[ResourceSlice],
        classes: Store[DeviceClass],
        claims: Store[ResourceClaim],
        pods: Store[Pod],
        nodes: Store[Node],
    ) -> None:
        self._slices = slices
        self._classes = classes
        self._claims = claims
        self._pods = pods
        self._nodes = nodes
        self._advertised: dict[str, bool] = {}
        """Resources of classes that pods request, and whether a node advertises them."""
        self._snapshot = Snapshot()
        self._reread: Reread = lambda _pods, _gained: None
        slices.add_index(_BY_POOL, lambda each: [(each.spec.driver, each.spec.pool.name)])
        classes.add_index(_BY_RESOURCE, _extended_resource)
        pods.add_index(_BY_CLAIM, claim_keys)

    def attach(self, snapshot: Snapshot, reread: Reread) -> None:
        """Begins to keep a snapshot true."""
        self._snapshot = snapshot
        self._reread = reread
        snapshot.claims.select_by(Selectors())
        self._slices.subscribe(self._slice_changed)
        self._classes.subscribe(self._class_changed)
        self._claims.subscribe(self._claim_changed)
        self._nodes.subscribe(self._node_changed)

    def claimed(self, pod: Pod, member: Member) -> Member:
        """A pod that asks for the devices of its claims, too; `Misread` if it has to wait."""
        return self._with_extended(pod, claimed(pod, member, self.claim, self.device_class))

    def used(self, pod: Pod, member: Member) -> Member:
        """A pod that has a node, with its claims as far as they can be read."""
        try:
            return self.claimed(pod, member)
        except Misread:
            return replace(member, claims=tuple(claim_keys(pod)))

    def extended_claim(self, pod: Pod) -> ExtendedClaim | None:
        """The claim that a pod has, or needs, for extended resources that devices provide."""
        if not len(self._classes):
            return None
        return extended_claim_of(pod, self._class_of, self._is_advertised)

    def _with_extended(self, pod: Pod, member: Member) -> Member:
        extended = self.extended_claim(pod)
        if extended is None:
            return member
        return with_extended_claim(member, extended, self.claim, self.device_class)

    def claim(self, key: str) -> ResourceClaim | None:
        """The claim of a key, NAMESPACE/NAME."""
        namespace, _, name = key.partition("/")
        return self._claims.get((namespace, name))

    def device_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(("", name))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        pools = {(s.spec.driver, s.spec.pool.name) for s in (old, new) if s is not None}
        for pool in pools:
            found = pool_of(self._slices.find(_BY_POOL, pool))
            self._snapshot.note_facts(self._snapshot.claims.put_pool(pool, found))
        self._reread((), True)

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            resources = {name for each in (old, new) if each is not None for name in _names(each)}
            pods = [
                pod.key
                for pod in self._pods.objects()
                if pod.spec.resource_claims or _requests_any(pod, resources)
            ]
            self._reread(pods, True)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        assert claim is not None
        written = written_of(new) if new is not None else None
        self._snapshot.note_facts(self._snapshot.claims.put_claim(claim.key, written))
        had = old is not None and old.status.allocation is not None
        pods = [pod.key for pod in self._pods.find(_BY_CLAIM, claim.key)]
        self._reread(pods, had and written is None)

    def _class_of(self, resource: str) -> str | None:
        """The class that provides a resource: of several the newest, as in kube-scheduler."""
        if resource.startswith(ANY_OF_CLASS):
            return resource.removeprefix(ANY_OF_CLASS)
        classes = sorted(self._classes.find(_BY_RESOURCE, resource), key=_name_of)
        newest = max(classes, key=lambda each: each.metadata.creation_timestamp, default=None)
        return newest.metadata.name if newest is not None else None

    def _is_advertised(self, resource: str) -> bool:
        column = self._snapshot.resources.get(resource)
        found = column is not None and bool(self._snapshot.allocatable[column].any())
        self._advertised[resource] = found
        return found

    def _node_changed(self, _old: Node | None, _new: Node | None) -> None:
        """Reads pods anew whose resource nodes began, or ceased, to advertise."""
        known = dict(self._advertised)
        changed = {name for name, was in known.items() if self._is_advertised(name) != was}
        if changed:
            pods = [pod.key for pod in self._pods.objects() if _requests_any(pod, changed)]
            self._reread(pods, True)


def _name_of(each: DeviceClass) -> str:
    return each.metadata.name


def _names(each: DeviceClass) -> list[str]:
    return [*_extended_resource(each), f"{ANY_OF_CLASS}{each.metadata.name}"]


def _requests_any(pod: Pod, resources: set[str]) -> bool:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(not resources.isdisjoint(each.resources.requests) for each in containers)


def _extended_resource(each: DeviceClass) -> list[str]:
    return [each.spec.extended_resource_name] if each.spec.extended_resource_name else []
