"""Releases the claims of pods that have ended.

A claim is reserved for pods. The reservation of a pod that was deleted, was replaced by another of
its name, or has ended is removed; with the last of them the claim is deallocated, then loses its
finalizer. A generated claim of a pod that has ended is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.resourceclaim.generation import (
    is_finished_with_claims,
    iter_claim_names,
)
from kilonova.local.controllers.resourceclaim.objects import (
    DELETE_PROTECTION_FINALIZER,
    RESOURCE_CLAIMS,
    Consumer,
    ResourceClaim,
)
from kilonova.local.objects.core import PODS, Pod

_WORKERS = 8


@dataclass(frozen=True, slots=True)
class ReleaseChanges:
    """The writes to a claim: its status first, since the finalizer is removed only after that."""

    status: JsonObject | None = None
    unprotect: bool = False


def plan_release(claim: ResourceClaim, remaining: Sequence[Consumer]) -> ReleaseChanges:
    """The changes to a claim that only these consumers still use."""
    protected = DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers
    if len(remaining) < len(claim.status.reserved_for):
        status: JsonObject = {"reservedFor": msgspec.to_builtins(remaining) or None}
        if protected and not remaining:
            status["allocation"] = None
        allocated = claim.status.allocation is not None and "allocation" not in status
        return ReleaseChanges(status, protected and not allocated)
    if protected and claim.metadata.deletion_timestamp is not None and not remaining:
        allocated = claim.status.allocation is not None
        return ReleaseChanges({"allocation": None} if allocated else None, True)
    return ReleaseChanges()


def is_owner_finished(claim: ResourceClaim, owner: Pod | None) -> bool:
    """Whether the pod of a generated claim no longer needs it; `owner` is the pod of that name.

    A pod that is not in the cache may not have been observed yet; the garbage collector deletes
    claims of deleted pods anyway.
    """
    reference = claim.metadata.controller
    if reference is None or (reference.api_version, reference.kind) != ("v1", "Pod"):
        return False
    return owner is not None and (
        owner.metadata.uid != reference.uid or is_finished_with_claims(owner)
    )


class ClaimReleaseController:
    """Reconciles claims: those that change, and those of pods that end."""

    def __init__(
        self, client: Client, pods: Reflector[Pod], claims: Reflector[ResourceClaim]
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self.controller = Controller(
            "resource claims", self._reconcile, [Watch(claims)], workers=_WORKERS
        )
        pods.store.add_event_handler(self._handle_pod_change)

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        replaced = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        for pod in (old if new is None or replaced else None, new):
            if pod is not None and (pod is old or is_finished_with_claims(pod)):
                for name in iter_claim_names(pod):
                    self.controller.queue.add((pod.metadata.namespace, name))

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None:
            return
        await self._pods.wait_for_sync()
        remaining = [
            each
            for each in claim.status.reserved_for
            if await self._is_consumer_active(claim, each)
        ]
        try:
            await self._apply_changes(claim, plan_release(claim, remaining))
            if not remaining and is_owner_finished(claim, self._find_owner_pod(claim)):
                metadata = claim.metadata
                await self._client.delete(
                    RESOURCE_CLAIMS, metadata.name, metadata.namespace, uid=metadata.uid
                )
        except NotFound:
            return
        except Conflict:
            return  # it changed: its event enqueues it again

    async def _is_consumer_active(self, claim: ResourceClaim, consumer: Consumer) -> bool:
        """Only pods are checked; other consumers remove their reservation themselves."""
        if not consumer.is_pod:
            return True
        namespace = claim.metadata.namespace
        pod = self._pods.store.get((namespace, consumer.name))
        if pod is None:
            # A reservation may be observed before its pod. Only the server is authoritative.
            try:
                pod = await self._client.get(PODS, consumer.name, namespace)
            except NotFound:
                return False
            return pod.metadata.uid == consumer.uid
        return pod.metadata.uid == consumer.uid and not is_finished_with_claims(pod)

    def _find_owner_pod(self, claim: ResourceClaim) -> Pod | None:
        reference = claim.metadata.controller
        if reference is None:
            return None
        return self._pods.store.get((claim.metadata.namespace, reference.name))

    async def _apply_changes(self, claim: ResourceClaim, changes: ReleaseChanges) -> None:
        metadata = claim.metadata
        about: JsonObject = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if changes.status is not None:
            body: JsonObject = {"metadata": about, "status": changes.status}
            written = await self._client.patch(
                RESOURCE_CLAIMS, metadata.name, body, metadata.namespace, subresource="status"
            )
            about = {**about, "resourceVersion": written.metadata.resource_version}
        if changes.unprotect:
            remaining = [
                each for each in metadata.finalizers if each != DELETE_PROTECTION_FINALIZER
            ]
            body = {"metadata": {**about, "finalizers": remaining or None}}
            await self._client.patch(RESOURCE_CLAIMS, metadata.name, body, metadata.namespace)
