"""The claims of a pod, and the claims generated for it. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.controllers.resourceclaim.objects import ResourceClaim, ResourceClaimTemplate
from kilonova.local.objects.core import Pod, PodResourceClaim, PodResourceClaimStatus

POD_CLAIM_NAME_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: its name in the pod's spec."""

_MAX_PREFIX_LENGTH = 57


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """A resolved claim of a pod; None: the pod does not need one."""

    name: str | None
    is_generated: bool


def resolve_claim(
    pod_claim: PodResourceClaim, statuses: Iterable[PodResourceClaimStatus]
) -> ClaimReference | None:
    """The claim of a pod with these statuses; None while it is still to be generated."""
    if pod_claim.resource_claim_name is not None:
        return ClaimReference(pod_claim.resource_claim_name, False)
    for status in statuses:
        if status.name == pod_claim.name:
            return ClaimReference(status.resource_claim_name, True)
    return None


def iter_claim_names(pod: Pod) -> Iterator[str]:
    """The names of the claims that a pod uses."""
    for pod_claim in pod.spec.resource_claims:
        found = resolve_claim(pod_claim, pod.status.resource_claim_statuses)
        if found is not None and found.name:
            yield found.name
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def is_finished_with_claims(pod: Pod) -> bool:
    """Whether a pod no longer uses its claims."""
    going_unplaced = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return pod.is_terminal or going_unplaced


def is_generated_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim was generated for this very pod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def find_missing_claims(
    pod: Pod, find: Callable[[str], ResourceClaim | None]
) -> list[PodResourceClaim]:
    """The claims of a pod that have to be generated, for the first time or again.

    A generated claim that was deleted is generated again; so is one whose name belongs to another
    claim now.
    """
    if is_finished_with_claims(pod):
        return []
    missing: list[PodResourceClaim] = []
    for pod_claim in pod.spec.resource_claims:
        if pod_claim.resource_claim_template_name is None:
            continue
        reference = resolve_claim(pod_claim, pod.status.resource_claim_statuses)
        if reference is not None:
            claim = find(reference.name) if reference.name is not None else None
            if reference.name is None or (claim is not None and is_generated_for(claim, pod)):
                continue
        missing.append(pod_claim)
    return missing


def find_unreserved_claims(
    pod: Pod, find: Callable[[str], ResourceClaim | None]
) -> Iterator[ResourceClaim]:
    """Allocated claims that a bound pod uses and that are not reserved for it.

    The scheduler reserves before it binds. A pod that is bound manually has no reservation.
    """
    if not pod.spec.node_name or is_finished_with_claims(pod):
        return
    for pod_claim in pod.spec.resource_claims:
        reference = resolve_claim(pod_claim, pod.status.resource_claim_statuses)
        claim = find(reference.name) if reference is not None and reference.name else None
        if claim is None or claim.status.allocation is None:
            continue
        if reference is not None and reference.is_generated and not is_generated_for(claim, pod):
            continue
        if not claim.is_reserved_for(pod.metadata.uid):
            yield claim


def build_claim(
    pod: Pod, pod_claim: PodResourceClaim, template: ResourceClaimTemplate
) -> JsonObject:
    """The claim to create for a pod."""
    metadata: JsonObject = {
        "generateName": _build_name_prefix(pod.metadata.name, pod_claim.name),
        "annotations": {
            **template.spec.metadata.annotations,
            POD_CLAIM_NAME_ANNOTATION: pod_claim.name,
        },
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
                "controller": True,
            }
        ],
    }
    if template.spec.metadata.labels:
        metadata["labels"] = template.spec.metadata.labels
    return {"metadata": metadata, "spec": template.spec.spec}


def _build_name_prefix(pod: str, claim: str) -> str:
    """`POD-CLAIM-`, both truncated to fit."""
    name = f"{pod}-{claim}-"
    if len(name) <= _MAX_PREFIX_LENGTH:
        return name
    shares = (each[: len(each) * _MAX_PREFIX_LENGTH // len(name)] for each in (pod, claim))
    return "-".join(shares)
