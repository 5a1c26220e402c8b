"""Gives back what pods that have ended had claimed.

A claim is reserved for pods. One that is gone, was replaced by another of its name, or has ended
is taken off the list; with the last of them the claim loses its devices, then its protection from
deletion. A claim that was generated for a pod that has ended is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.claims.generation import claim_names, is_done
from kilonova.local.controllers.claims.objects import CLAIMS, PROTECTION, Claim, Consumer
from kilonova.local.controllers.objects import PODS, Pod

_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Changes:
    """What to write to a claim: its status first, since protection goes only with the devices."""

    status: JsonObject | None = None
    unprotect: bool = False


def changes(claim: Claim, remaining: Sequence[Consumer]) -> Changes:
    """What becomes of a claim that only these still use."""
    protected = PROTECTION in claim.metadata.finalizers
    if len(remaining) < len(claim.status.reserved_for):
        status: JsonObject = {"reservedFor": msgspec.to_builtins(remaining) or None}
        if protected and not remaining:
            status["allocation"] = None
        allocated = claim.status.allocation is not None and "allocation" not in status
        return Changes(status, protected and not allocated)
    if protected and claim.metadata.deletion_timestamp is not None and not remaining:
        allocated = claim.status.allocation is not None
        return Changes({"allocation": None} if allocated else None, True)
    return Changes()


def owner_is_done(claim: Claim, owner: Pod | None) -> bool:
    """Whether the pod that a claim was made for will not need it; `owner` has that pod's name.

    One that is not known may only not be known yet: its garbage is collected by owner anyway.
    """
    reference = claim.metadata.controller
    if reference is None or (reference.api_version, reference.kind) != ("v1", "Pod"):
        return False
    return owner is not None and (owner.metadata.uid != reference.uid or is_done(owner))


class ClaimRelease:
    """Works on claims: on those that change, and those of pods that end."""

    def __init__(self, client: Client, pods: Reflector[Pod], claims: Reflector[Claim]) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self.controller = Controller(
            "resource claims", self._reconcile, [Watch(claims)], workers=_WORKERS
        )
        pods.store.subscribe(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        replaced = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        for pod in (old if new is None or replaced else None, new):
            if pod is not None and (pod is old or is_done(pod)):
                for name in claim_names(pod):
                    self.controller.queue.add((pod.metadata.namespace, name))

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.store.get(key)
        if claim is None:
            return
        await self._pods.wait_synced()
        remaining = [each for each in claim.status.reserved_for if await self._is_used(claim, each)]
        try:
            await self._write(claim, changes(claim, remaining))
            if not remaining and owner_is_done(claim, self._owner(claim)):
                known = claim.metadata
                await self._client.delete(CLAIMS, known.name, known.namespace, uid=known.uid)
        except NotFound:
            return
        except Conflict:
            return  # it changed, which wakes us again

    async def _is_used(self, claim: Claim, consumer: Consumer) -> bool:
        """Only of pods do we know when they are done; others take themselves off the list."""
        if not consumer.is_pod:
            return True
        namespace = claim.metadata.namespace
        pod = self._pods.store.get((namespace, consumer.name))
        if pod is None:
            # A reservation may be seen before its pod is. Only the server knows for sure.
            try:
                pod = await self._client.get(PODS, consumer.name, namespace)
            except NotFound:
                return False
            return pod.metadata.uid == consumer.uid
        return pod.metadata.uid == consumer.uid and not is_done(pod)

    def _owner(self, claim: Claim) -> Pod | None:
        reference = claim.metadata.controller
        if reference is None:
            return None
        return self._pods.store.get((claim.metadata.namespace, reference.name))

    async def _write(self, claim: Claim, wanted: Changes) -> None:
        known = claim.metadata
        about: JsonObject = {"uid": known.uid, "resourceVersion": known.resource_version}
        if wanted.status is not None:
            body: JsonObject = {"metadata": about, "status": wanted.status}
            written = await self._client.patch(
                CLAIMS, known.name, body, known.namespace, subresource="status"
            )
            about = {**about, "resourceVersion": written.metadata.resource_version}
        if wanted.unprotect:
            kept = [each for each in known.finalizers if each != PROTECTION]
            body = {"metadata": {**about, "finalizers": kept or None}}
            await self._client.patch(CLAIMS, known.name, body, known.namespace)
