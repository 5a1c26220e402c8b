"""Binds the PersistentVolumeClaims of a gang before its pods are bound.

A claim gets a free volume, or a selected node for which its volume is provisioned; then the binder
waits until it is bound. Each write fails if the object changed in the meantime. Writes are not
undone when the placement fails: a provisioner may be at work. So after a crash or a timeout, pods
are placed where their volumes are, or are being provisioned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    Key,
    NotFound,
    Resource,
)
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.binding.claim_allocations import AllocationConflict
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.selectors import matches_node_selector
from kilonova.scheduler.convert.storage.volumes import (
    NodeSelection,
    VolumePrebinding,
    plan_volume_binding,
)
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import PODS, Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.objects.storage_v1 import (
    BOUND_BY_CONTROLLER,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kilonova.scheduler.storage.index import StorageIndex, volume_claim_keys

_log = get_logger(__name__)

_TERMINAL_ERRORS = (NotFound, Invalid, Forbidden, BadRequest)
_RETRY_BACKOFF = Backoff(0.1, 5.0)

T = TypeVar("T", PersistentVolumeClaim, PersistentVolume)
_VolumeAction = NodeSelection | VolumePrebinding


def selected_node_patch(
    claim: PersistentVolumeClaim, node: str, before: str | None
) -> JsonObject | None:
    """The patch that selects a node for a claim; None if it is selected already.

    `before` is the selected node at the time of the decision. Raises `AllocationConflict`.
    """
    now = claim.metadata.annotations.get(SELECTED_NODE)
    if claim.is_bound or now == node:
        return None
    if now != before:
        raise AllocationConflict(
            f"its volume is being provisioned for node {now}"
            if now
            else "its selected node was removed"
        )
    return {"metadata": {**_precondition(claim.metadata), "annotations": {SELECTED_NODE: node}}}


def claim_ref_patch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> JsonObject | None:
    """The patch that binds a volume to a claim; None if it is bound already. Raises
    `AllocationConflict`."""
    claim_meta, reference = claim.metadata, volume.spec.claim_ref
    if reference is not None:
        if reference.uid == claim_meta.uid:
            return None
        owner = f"{reference.namespace}/{reference.name}"
        raise AllocationConflict(f"volume {volume.metadata.name} is bound to claim {owner}")
    annotations = {BOUND_BY_CONTROLLER: "yes"}
    return {
        "metadata": {**_precondition(volume.metadata), "annotations": annotations},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": claim_meta.namespace,
                "name": claim_meta.name,
                "uid": claim_meta.uid,
                "resourceVersion": claim_meta.resource_version,
            }
        },
    }


class VolumeBinder:
    """Binds the volumes of placed pods, as kube-scheduler's SchedulerVolumeBinder."""

    def __init__(
        self, context: SchedulerContext, cache: SchedulerCache, storage: StorageIndex
    ) -> None:
        self._client = context.client
        self._storage = storage
        self._snapshot = cache.cluster.snapshot
        self._find_unbound_pod = cache.find_unbound_pod
        self._events = context.recorder
        self._slots = context.write_slots
        self._eviction_timeout = context.settings.eviction_timeout
        self._claim_events: dict[str, asyncio.Event] = {}
        """Events set when an awaited claim changes."""
        storage.claims.add_event_handler(self._claim_changed)

    async def bind_volumes(self, pod_placements: Iterable[PodPlacement]) -> bool:
        """Bind all claims of a gang; False if one of them fails, with an event on its pods."""
        pods: list[tuple[Pod, str]] = []
        for pod_placement in pod_placements:
            pod = self._find_unbound_pod(pod_placement)
            if pod is None:
                return False
            if volume_claim_keys(pod):
                pods.append((pod, self._snapshot.names[pod_placement.row]))
        try:
            actions = self._plan_actions(pods)
            await _gather_all(self._apply_action(each) for each in actions)
            nodes = {key: node for pod, node in reversed(pods) for key in volume_claim_keys(pod)}
            nodes |= {each.claim: each.node for each in actions if isinstance(each, NodeSelection)}
            await _gather_all(self._wait_until_bound(key, node) for key, node in nodes.items())
            for pod, node in pods:
                self._check_node_reaches_volumes(pod, node)
        except AllocationConflict as error:
            _log.warning("volumes not bound", pods=[pod.key for pod, _ in pods], error=str(error))
            for pod, _ in pods:
                meta = pod.metadata
                reference = ObjectReference.to(PODS, meta.name, meta.namespace, meta.uid)
                self._events.event(reference, "FailedScheduling", str(error), warning=True)
            return False
        return True

    def _plan_actions(self, pods: Iterable[tuple[Pod, str]]) -> list[_VolumeAction]:
        """The writes for pods on their nodes. Of pods that share a claim, the first determines its
        node; volumes are assumed from now on."""
        actions: dict[str, _VolumeAction] = {}
        for pod, node in pods:
            labels = self._snapshot.node(self._snapshot.row(node)).labels
            planned = plan_volume_binding(pod, self._storage, node, labels)
            if isinstance(planned, GangNotReady):
                for each in actions.values():
                    self._storage.forget_assumed_volume(each)
                raise AllocationConflict(planned.message)
            for each in planned:
                if each.claim not in actions:
                    actions[each.claim] = each
                    self._storage.assume_volume(each)
        return list(actions.values())

    async def _apply_action(self, action: _VolumeAction) -> None:
        try:
            claim = self._get_claim(action.claim)
            if isinstance(action, NodeSelection):
                await self._select_node(claim, action.node)
            else:
                key = "", action.volume
                volume = self._storage.volumes.get(key)
                await self._retry_patch(
                    PERSISTENT_VOLUMES, key, volume, lambda now: claim_ref_patch(now, claim)
                )
        except BaseException:
            self._storage.forget_assumed_volume(action)
            raise

    async def _select_node(self, claim: PersistentVolumeClaim, node: str) -> None:
        key = claim.metadata.namespace, claim.metadata.name
        before = claim.metadata.annotations.get(SELECTED_NODE)
        await self._retry_patch(
            PERSISTENT_VOLUME_CLAIMS, key, claim, lambda now: selected_node_patch(now, node, before)
        )

    async def _retry_patch(
        self,
        resource: Resource[T],
        key: Key,
        known: T | None,
        body: Callable[[T], JsonObject | None],
    ) -> None:
        """Patch the current version of an object until it succeeds. Raises `AllocationConflict`."""
        namespace, name = key[0] or None, key[1]
        for failures in count(1):
            try:
                async with self._slots:
                    if known is None:
                        known = await self._client.get(resource, name, namespace)
                    patch = body(known)
                    if patch is not None:
                        await self._client.patch(resource, name, patch, namespace)
                return
            except _TERMINAL_ERRORS as error:
                raise AllocationConflict(f"{resource.kind} {name}: {error}") from error
            except (ConnectionFailed, ApiStatusError) as error:
                if not isinstance(error, Conflict):
                    _log.warning(
                        "volume or claim not written, retrying", object=name, error=str(error)
                    )
                known = None
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))

    async def _wait_until_bound(self, key: str, node: str) -> None:
        name, selected = key.partition("/")[2], False
        try:
            async with asyncio.timeout(self._eviction_timeout):
                while not (claim := self._get_claim(key)).is_bound:
                    now = claim.metadata.annotations.get(SELECTED_NODE)
                    if selected and now != node:
                        raise AllocationConflict(
                            f'no volume was provisioned for claim "{name}" on node {node}'
                        )
                    selected = selected or now == node
                    await self._claim_events.setdefault(key, asyncio.Event()).wait()
        except TimeoutError:
            message = (
                f'persistentvolumeclaim "{name}" was not bound within {self._eviction_timeout:g} s'
            )
            raise AllocationConflict(f"{message} for node {node}") from None

    def _check_node_reaches_volumes(self, pod: Pod, node: str) -> None:
        """Raise if a volume is out of reach: one provisioned for a pod may not be where another pod
        that shares it is."""
        if node not in self._snapshot:
            raise AllocationConflict(f"node {node} was deleted")
        labels = self._snapshot.node(self._snapshot.row(node)).labels
        for claim in map(self._get_claim, volume_claim_keys(pod)):
            volume = self._storage.volume(claim.spec.volume_name)
            if volume is not None and not matches_node_selector(volume.node_selector, node, labels):
                raise AllocationConflict(
                    f'node {node} cannot access the volume of claim "{claim.metadata.name}"'
                )

    def _get_claim(self, key: str) -> PersistentVolumeClaim:
        namespace, name = split_key(key)
        claim = self._storage.claim(namespace, name)
        if claim is None:
            raise AllocationConflict(f'persistentvolumeclaim "{name}" not found')
        return claim

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        claim = new or old
        assert claim is not None
        change = self._claim_events.pop(claim.key, None)
        if change is not None:
            change.set()


async def _gather_all(awaitables: Iterable[Awaitable[None]]) -> None:
    """Await all, each to its end, before the first exception is raised."""
    for outcome in await asyncio.gather(*awaitables, return_exceptions=True):
        if outcome is not None:
            raise outcome


def _precondition(meta: Metadata) -> JsonObject:
    """The UID and resource version that an object must still have when it is written."""
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}
