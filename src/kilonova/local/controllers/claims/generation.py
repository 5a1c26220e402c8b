"""Which claims a pod has, and what one is that is made for it. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.controllers.claims.objects import Claim, Template
from kilonova.local.controllers.objects import Pod, PodResourceClaim, PodResourceClaimStatus

ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a generated claim: under which name its pod knows it."""

_LONGEST_PREFIX = 57


@dataclass(frozen=True, slots=True)
class Named:
    """A claim of a pod that is known by name; None: the pod needs none after all."""

    name: str | None
    generated: bool


def named_claim(
    wanted: PodResourceClaim, statuses: Iterable[PodResourceClaimStatus]
) -> Named | None:
    """The claim of a pod with these statuses; None while it is still to be generated."""
    if wanted.resource_claim_name is not None:
        return Named(wanted.resource_claim_name, False)
    for status in statuses:
        if status.name == wanted.name:
            return Named(status.resource_claim_name, True)
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """The claims that a pod is known to use."""
    for wanted in pod.spec.resource_claims:
        found = named_claim(wanted, pod.status.resource_claim_statuses)
        if found is not None and found.name:
            yield found.name
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def is_done(pod: Pod) -> bool:
    """Whether a pod has no more use for its claims."""
    going_unplaced = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return pod.ended or going_unplaced


def belongs_to(claim: Claim, pod: Pod) -> bool:
    """Whether a claim was generated for this very pod."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def missing_claims(pod: Pod, find: Callable[[str], Claim | None]) -> list[PodResourceClaim]:
    """The claims of a pod that have to be generated, for the first time or again.

    One that was made and is gone is made again; so is one whose name another's claim has now.
    """
    if is_done(pod):
        return []
    missing: list[PodResourceClaim] = []
    for wanted in pod.spec.resource_claims:
        if wanted.resource_claim_template_name is None:
            continue
        known = named_claim(wanted, pod.status.resource_claim_statuses)
        if known is not None:
            claim = find(known.name) if known.name is not None else None
            if known.name is None or (claim is not None and belongs_to(claim, pod)):
                continue
        missing.append(wanted)
    return missing


def unreserved(pod: Pod, find: Callable[[str], Claim | None]) -> Iterator[Claim]:
    """Claims with devices that a placed pod uses, and that are not noted to be for it.

    The scheduler does that before it places a pod. Who places pods by hand does not.
    """
    if not pod.spec.node_name or is_done(pod):
        return
    for wanted in pod.spec.resource_claims:
        known = named_claim(wanted, pod.status.resource_claim_statuses)
        claim = find(known.name) if known is not None and known.name else None
        if claim is None or claim.status.allocation is None:
            continue
        if known is not None and known.generated and not belongs_to(claim, pod):
            continue
        if not claim.is_reserved_for(pod.metadata.uid):
            yield claim


def generated_claim(pod: Pod, wanted: PodResourceClaim, template: Template) -> JsonObject:
    """The claim to create for a pod."""
    metadata: JsonObject = {
        "generateName": _prefix(pod.metadata.name, wanted.name),
        "annotations": {**template.spec.metadata.annotations, ANNOTATION: wanted.name},
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


def _prefix(pod: str, claim: str) -> str:
    """`POD-CLAIM-`, with as much of both as there is room for."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= _LONGEST_PREFIX:
        return whole
    shares = (each[: len(each) * _LONGEST_PREFIX // len(whole)] for each in (pod, claim))
    return "-".join(shares)
