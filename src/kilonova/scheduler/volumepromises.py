"""Sees to it that claims to storage have their volumes before their pods are bound.

A claim gets a free volume, or the node is noted on it for which its volume is made; then we wait
until it is bound. Each write holds only if nobody changed the object since. What was written stays
when nothing comes of it: whoever makes volumes may be at work. So after a crash, and after a wait
that was too long, pods are placed where their claims' volumes are, or are to be.
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
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    Key,
    NotFound,
    Resource,
)
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.scheduler.allocations import Unfit
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.selectors import reaches
from kilonova.scheduler.reading.volumes import ClaimSelection, VolumeGrant, promises
from kilonova.scheduler.shelves import Shelves, claim_keys
from kilonova.scheduler.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    VolumeClaim,
)

_log = get_logger(__name__)

_REFUSED = (NotFound, Invalid, Forbidden, BadRequest)
_PAUSES = Backoff(0.1, 5.0)

T = TypeVar("T", VolumeClaim, PersistentVolume)
_Promise = ClaimSelection | VolumeGrant


def selection(claim: VolumeClaim, node: str, before: str | None) -> JsonObject | None:
    """What is written to a claim whose volume is to be made for a node; None if it is so already.
    `before` is the node that it had when this was decided. Raises `Unfit`."""
    now = claim.metadata.annotations.get(SELECTED_NODE)
    if claim.is_bound or now == node:
        return None
    if now != before:
        raise Unfit(f"its volume is made for node {now}" if now else "its node was taken back")
    return {"metadata": {**_precondition(claim.metadata), "annotations": {SELECTED_NODE: node}}}


def grant(volume: PersistentVolume, claim: VolumeClaim) -> JsonObject | None:
    """What is written to a volume that a claim gets; None if it is so already. Raises `Unfit`."""
    known, reference = claim.metadata, volume.spec.claim_ref
    if reference is not None:
        if reference.uid == known.uid:
            return None
        taker = f"{reference.namespace}/{reference.name}"
        raise Unfit(f"volume {volume.metadata.name} went to claim {taker}")
    annotations = {BOUND_BY_CONTROLLER: "yes"}
    return {
        "metadata": {**_precondition(volume.metadata), "annotations": annotations},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": VOLUME_CLAIMS.kind,
                "namespace": known.namespace,
                "name": known.name,
                "uid": known.uid,
                "resourceVersion": known.resource_version,
            }
        },
    }


class VolumePromises:
    """Writes them, and waits until they are kept."""

    def __init__(
        self,
        client: Client,
        shelves: Shelves,
        snapshot: Snapshot,
        unbound: Callable[[Booking], Pod | None],
        events: Recorder,
        slots: asyncio.Semaphore,
        *,
        patience: float,
    ) -> None:
        self._client = client
        self._shelves = shelves
        self._snapshot = snapshot
        self._unbound = unbound
        self._events = events
        self._slots = slots
        self._patience = patience
        self._changes: dict[str, asyncio.Event] = {}
        """Set when a claim that is waited for changes."""
        shelves.claims.subscribe(self._claim_changed)

    async def write(self, bookings: Iterable[Booking]) -> bool:
        """Has all claims of a gang bound; False if one of them is not, of which its pods tell."""
        pods: list[tuple[Pod, str]] = []
        for booking in bookings:
            pod = self._unbound(booking)
            if pod is None:
                return False
            if claim_keys(pod):
                pods.append((pod, self._snapshot.names[booking.row]))
        try:
            wanted = self._promised(pods)
            await _all(self._keep(each) for each in wanted)
            nodes = {key: node for pod, node in reversed(pods) for key in claim_keys(pod)}
            nodes |= {each.claim: each.node for each in wanted if isinstance(each, ClaimSelection)}
            await _all(self._until_bound(key, node) for key, node in nodes.items())
            for pod, node in pods:
                self._check_reach(pod, node)
        except Unfit as error:
            _log.warning("volumes refused", pods=[pod.key for pod, _ in pods], error=str(error))
            for pod, _ in pods:
                known = pod.metadata
                about = Reference.to(PODS, known.name, known.namespace, known.uid)
                self._events.event(about, "FailedScheduling", str(error), warning=True)
            return False
        return True

    def _promised(self, pods: Iterable[tuple[Pod, str]]) -> list[_Promise]:
        """What is to be written for pods on their nodes. Of pods that share a claim, the first says
        where it is; a volume counts as given from now on."""
        wanted: dict[str, _Promise] = {}
        for pod, node in pods:
            labels = self._snapshot.node(self._snapshot.row(node)).labels
            found = promises(pod, self._shelves, node, labels)
            if isinstance(found, NotYet):
                for each in wanted.values():
                    self._shelves.take_back(each)
                raise Unfit(found.message)
            for each in found:
                if each.claim not in wanted:
                    wanted[each.claim] = each
                    self._shelves.give(each)
        return list(wanted.values())

    async def _keep(self, promise: _Promise) -> None:
        try:
            claim = self._claim(promise.claim)
            if isinstance(promise, ClaimSelection):
                await self._select(claim, promise.node)
            else:
                key = "", promise.volume
                volume = self._shelves.volumes.get(key)
                await self._insist(VOLUMES, key, volume, lambda now: grant(now, claim))
        except BaseException:
            self._shelves.take_back(promise)
            raise

    async def _select(self, claim: VolumeClaim, node: str) -> None:
        key = claim.metadata.namespace, claim.metadata.name
        before = claim.metadata.annotations.get(SELECTED_NODE)
        await self._insist(VOLUME_CLAIMS, key, claim, lambda now: selection(now, node, before))

    async def _insist(
        self,
        resource: Resource[T],
        key: Key,
        known: T | None,
        body: Callable[[T], JsonObject | None],
    ) -> None:
        """Writes to an object as it is now, until it is written. Raises `Unfit`."""
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
            except _REFUSED as error:
                raise Unfit(f"{resource.kind} {name}: {error}") from error
            except (ConnectionFailed, ApiStatusError) as error:
                if not isinstance(error, Conflict):
                    _log.warning("volume delayed", object=name, error=str(error))
                known = None
            await asyncio.sleep(_PAUSES.delay(failures))

    async def _until_bound(self, key: str, node: str) -> None:
        name, selected = key.partition("/")[2], False
        try:
            async with asyncio.timeout(self._patience):
                while not (claim := self._claim(key)).is_bound:
                    now = claim.metadata.annotations.get(SELECTED_NODE)
                    if selected and now != node:
                        raise Unfit(f'no volume was made for "{name}" on node {node}')
                    selected = selected or now == node
                    await self._changes.setdefault(key, asyncio.Event()).wait()
        except TimeoutError:
            message = f'persistentvolumeclaim "{name}" was not bound within {self._patience:g} s'
            raise Unfit(f"{message} for node {node}") from None

    def _check_reach(self, pod: Pod, node: str) -> None:
        """A volume that was made for one pod may not be where another is that shares it."""
        if node not in self._snapshot:
            raise Unfit(f"node {node} is gone")
        labels = self._snapshot.node(self._snapshot.row(node)).labels
        for claim in map(self._claim, claim_keys(pod)):
            volume = self._shelves.volume(claim.spec.volume_name)
            if volume is not None and not reaches(volume.nodes, node, labels):
                raise Unfit(f'node {node} does not reach the volume of "{claim.metadata.name}"')

    def _claim(self, key: str) -> VolumeClaim:
        namespace, _, name = key.partition("/")
        claim = self._shelves.claim(namespace, name)
        if claim is None:
            raise Unfit(f'persistentvolumeclaim "{name}" not found')
        return claim

    def _claim_changed(self, old: VolumeClaim | None, new: VolumeClaim | None) -> None:
        claim = new or old
        assert claim is not None
        change = self._changes.pop(claim.key, None)
        if change is not None:
            change.set()


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Does all at once, and each to its end, before what the first raised is raised."""
    for ended in await asyncio.gather(*works, return_exceptions=True):
        if ended is not None:
            raise ended


def _precondition(known: Metadata) -> JsonObject:
    """What must still hold of an object when it is written."""
    return {"uid": known.uid, "resourceVersion": known.resource_version}
