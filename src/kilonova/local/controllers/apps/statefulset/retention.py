"""Owner references of a StatefulSet's claims, by its retention policy. Pure."""

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.local.controllers.apps.objects import STATEFUL_SETS, ClaimRetention, StatefulSet
from kilonova.local.objects.core import PODS


def desired_claim_owners(
    claim: Metadata, stateful_set: StatefulSet, pod: Metadata, *, condemned: bool
) -> list[OwnerReference] | None:
    """The owner references that a claim should have; None if it already has them.

    `condemned` indicates that the pod's ordinal is beyond the desired replicas. A claim that refers
    to a StatefulSet or pod of the same name and another uid is left to the garbage collector.
    """
    owner = stateful_set.metadata
    if _has_stale_reference(claim, _set_reference(owner)) or _has_stale_reference(
        claim, _pod_reference(pod)
    ):
        return None
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    others = [each for each in claim.owner_references if each.uid not in (owner.uid, pod.uid)]
    desired = list(others)
    if not (has_other_controller(claim, stateful_set, pod)):
        if policy.when_scaled == "Delete" and condemned:
            desired.append(_pod_reference(pod))
        elif policy.when_deleted == "Delete":
            desired.append(_set_reference(owner))
    return None if desired == list(claim.owner_references) else desired


def has_other_controller(claim: Metadata, stateful_set: StatefulSet, pod: Metadata) -> bool:
    """Whether another controller manages the claim, so that the retention policy is ignored."""
    if stateful_set.spec.persistent_volume_claim_retention_policy == ClaimRetention():
        return False
    ours = (stateful_set.metadata.uid, pod.uid)
    return any(each.controller and each.uid not in ours for each in claim.owner_references)


def is_claim_stale(claim: Metadata, stateful_set: StatefulSet, pod_name: str) -> bool:
    """Whether a claim belongs to a previous pod of that name: a new pod must not use it."""
    if stateful_set.spec.persistent_volume_claim_retention_policy.when_scaled == "Retain":
        return False
    return any(
        (each.api_version, each.kind, each.name) == (PODS.api_version, PODS.kind, pod_name)
        for each in claim.owner_references
    )


def _has_stale_reference(claim: Metadata, reference: OwnerReference) -> bool:
    return any(
        (each.api_version, each.kind, each.name)
        == (reference.api_version, reference.kind, reference.name)
        and each.uid != reference.uid
        for each in claim.owner_references
    )


def _set_reference(owner: Metadata) -> OwnerReference:
    return _build_owner_reference(STATEFUL_SETS.api_version, STATEFUL_SETS.kind, owner)


def _pod_reference(pod: Metadata) -> OwnerReference:
    return _build_owner_reference(PODS.api_version, PODS.kind, pod)


def _build_owner_reference(api_version: str, kind: str, owner: Metadata) -> OwnerReference:
    return OwnerReference(api_version, kind, owner.name, owner.uid, True, True)
