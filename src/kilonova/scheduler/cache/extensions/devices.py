"""Devices that drivers publish, and ResourceClaims, as the informers show them.

When a claim changes, the pods that use it are read again; when a DeviceClass changes, which is
rare, all pods with claims.
"""

from dataclasses import replace

from kilonova.kube import Store
from kilonova.scheduler.convert.devices.allocations import convert_claim_status
from kilonova.scheduler.convert.devices.cel_selectors import DeviceSelectorCache
from kilonova.scheduler.convert.devices.claims import (
    IMPLICIT_RESOURCE_PREFIX,
    pod_claim_keys,
    with_claims,
)
from kilonova.scheduler.convert.devices.extended_resources import (
    ExtendedResourceClaim,
    build_extended_resource_claim,
    with_extended_resource_claim,
)
from kilonova.scheduler.convert.devices.resource_slices import convert_resource_pool
from kilonova.scheduler.convert.pods.changes import RereadPods
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Node, Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.objects.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

_BY_POOL = "pool"
_BY_CLAIM = "resource claim"
_BY_RESOURCE = "extended resource"


class DeviceCache:
    """ResourceSlices, DeviceClasses and ResourceClaims; `attach` it to the snapshot to update."""

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
        """Extended resources of DeviceClasses that pods request, and whether a node advertises
        them."""
        self._snapshot = Snapshot()
        self._reread_pods: RereadPods = lambda _pods, _capacity_freed: None
        slices.add_index(_BY_POOL, lambda each: [(each.spec.driver, each.spec.pool.name)])
        classes.add_index(_BY_RESOURCE, _extended_resource)
        pods.add_index(_BY_CLAIM, pod_claim_keys)

    def attach(self, snapshot: Snapshot, reread_pods: RereadPods) -> None:
        """Start keeping a snapshot up to date."""
        self._snapshot = snapshot
        self._reread_pods = reread_pods
        snapshot.claims.set_selector_matcher(DeviceSelectorCache())
        self._slices.add_event_handler(self._slice_changed)
        self._classes.add_event_handler(self._class_changed)
        self._claims.add_event_handler(self._claim_changed)
        self._nodes.add_event_handler(self._node_changed)

    def with_claims(self, pod: Pod, member: Member) -> Member:
        """A pod with the requests of its claims; `InvalidRequest` if it cannot be scheduled yet."""
        return self._with_extended_claim(
            pod, with_claims(pod, member, self.find_claim, self.find_device_class)
        )

    def with_claims_in_use(self, pod: Pod, member: Member) -> Member:
        """A bound pod, with its claims as far as they can be converted."""
        try:
            return self.with_claims(pod, member)
        except InvalidRequest:
            return replace(member, claims=tuple(pod_claim_keys(pod)))

    def extended_claim_of(self, pod: Pod) -> ExtendedResourceClaim | None:
        """The claim that a pod has, or needs, for extended resources provided by devices."""
        if not len(self._classes):
            return None
        return build_extended_resource_claim(pod, self._device_class_of, self._is_advertised)

    def _with_extended_claim(self, pod: Pod, member: Member) -> Member:
        extended = self.extended_claim_of(pod)
        if extended is None:
            return member
        return with_extended_resource_claim(
            member, extended, self.find_claim, self.find_device_class
        )

    def find_claim(self, key: str) -> ResourceClaim | None:
        """The claim of a key, NAMESPACE/NAME."""
        return self._claims.get(split_key(key))

    def find_device_class(self, name: str) -> DeviceClass | None:
        return self._classes.get(("", name))

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        pools = {(s.spec.driver, s.spec.pool.name) for s in (old, new) if s is not None}
        for pool in pools:
            resource_pool = convert_resource_pool(self._slices.by_index(_BY_POOL, pool))
            self._snapshot.put_pool(pool, resource_pool)
        self._reread_pods((), True)

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            resources = {
                name for each in (old, new) if each is not None for name in _resource_names_of(each)
            }
            pods = [
                pod.key
                for pod in self._pods.objects()
                if pod.spec.resource_claims or _requests_any(pod, resources)
            ]
            self._reread_pods(pods, True)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        assert claim is not None
        written = convert_claim_status(new) if new is not None else None
        self._snapshot.put_claim(claim.key, written)
        was_allocated = old is not None and old.status.allocation is not None
        pods = [pod.key for pod in self._pods.by_index(_BY_CLAIM, claim.key)]
        self._reread_pods(pods, was_allocated and written is None)

    def _device_class_of(self, resource: str) -> str | None:
        """The DeviceClass that provides a resource: of several the newest, as in kube-scheduler."""
        if resource.startswith(IMPLICIT_RESOURCE_PREFIX):
            return resource.removeprefix(IMPLICIT_RESOURCE_PREFIX)
        classes = sorted(self._classes.by_index(_BY_RESOURCE, resource), key=_name_of)
        newest = max(classes, key=lambda each: each.metadata.creation_timestamp, default=None)
        return newest.metadata.name if newest is not None else None

    def _is_advertised(self, resource: str) -> bool:
        column = self._snapshot.resources.get(resource)
        advertised = column is not None and bool(self._snapshot.allocatable[column].any())
        self._advertised[resource] = advertised
        return advertised

    def _node_changed(self, _old: Node | None, _new: Node | None) -> None:
        """Read pods again whose extended resource nodes started or stopped advertising."""
        advertised_before = dict(self._advertised)
        changed = {
            name for name, was in advertised_before.items() if self._is_advertised(name) != was
        }
        if changed:
            pods = [pod.key for pod in self._pods.objects() if _requests_any(pod, changed)]
            self._reread_pods(pods, True)


def _name_of(each: DeviceClass) -> str:
    return each.metadata.name


def _resource_names_of(each: DeviceClass) -> list[str]:
    return [*_extended_resource(each), f"{IMPLICIT_RESOURCE_PREFIX}{each.metadata.name}"]


def _requests_any(pod: Pod, resources: set[str]) -> bool:
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(not resources.isdisjoint(each.resources.requests) for each in containers)


def _extended_resource(each: DeviceClass) -> list[str]:
    return [each.spec.extended_resource_name] if each.spec.extended_resource_name else []
