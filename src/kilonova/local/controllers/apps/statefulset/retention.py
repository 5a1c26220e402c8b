"""Who owns the claims of a StatefulSet, so that they go with it, with their pod, or not. Pure."""

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.local.controllers.apps.objects import STATEFUL_SETS, ClaimRetention, StatefulSet
from kilonova.local.controllers.objects import PODS


def owners_of_claim(
    claim: Metadata, stateful_set: StatefulSet, pod: Metadata, *, condemned: bool
) -> list[OwnerReference] | None:
    """The owners that a claim should have; None where they are as they should be.

    `condemned` says that the pod's number is beyond those that are wanted. A claim that still
    names a set or pod of the same name and another uid waits for the garbage collector.
    """
    owner = stateful_set.metadata
    if _names_another(claim, _set_reference(owner)) or _names_another(claim, _pod_reference(pod)):
        return None
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    others = [each for each in claim.owner_references if each.uid not in (owner.uid, pod.uid)]
    wanted = list(others)
    if not (has_other_controller(claim, stateful_set, pod)):
        if policy.when_scaled == "Delete" and condemned:
            wanted.append(_pod_reference(pod))
        elif policy.when_deleted == "Delete":
            wanted.append(_set_reference(owner))
    return None if wanted == list(claim.owner_references) else wanted


def has_other_controller(claim: Metadata, stateful_set: StatefulSet, pod: Metadata) -> bool:
    """Whether somebody else manages the claim, so that the policy cannot hold for it."""
    if stateful_set.spec.persistent_volume_claim_retention_policy == ClaimRetention():
        return False
    ours = (stateful_set.metadata.uid, pod.uid)
    return any(each.controller and each.uid not in ours for each in claim.owner_references)


def is_left_behind(claim: Metadata, stateful_set: StatefulSet, pod_name: str) -> bool:
    """Whether a claim goes with an earlier pod of the name: no new pod may use it."""
    if stateful_set.spec.persistent_volume_claim_retention_policy.when_scaled == "Retain":
        return False
    return any(
        (each.api_version, each.kind, each.name) == (PODS.api_version, PODS.kind, pod_name)
        for each in claim.owner_references
    )


def _names_another(claim: Metadata, reference: OwnerReference) -> bool:
    return any(
        (each.api_version, each.kind, each.name)
        == (reference.api_version, reference.kind, reference.name)
        and each.uid != reference.uid
        for each in claim.owner_references
    )


def _set_reference(owner: Metadata) -> OwnerReference:
    return _controller(STATEFUL_SETS.api_version, STATEFUL_SETS.kind, owner)


def _pod_reference(pod: Metadata) -> OwnerReference:
    return _controller(PODS.api_version, PODS.kind, pod)


def _controller(api_version: str, kind: str, owner: Metadata) -> OwnerReference:
    return OwnerReference(api_version, kind, owner.name, owner.uid, True, True)
