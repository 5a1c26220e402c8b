"""Whether somebody may change what the operator has made. Pure, but for finding the set.

Off unless asked for. What people mean to change, they change in the set; by hand they may
delete pods, and connect to them. A set can be annotated so that anything goes.
"""

from collections.abc import Mapping
from typing import cast

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import Key
from kilonova.kube.admission import Allowed, Answer, Denied, Review

SYSTEM_USERS = tuple(
    f"system:serviceaccount:kube-system:{name}"
    for name in ("generic-garbage-collector", "namespace-controller")
)
"""Who only ever finishes a deletion that somebody else was allowed."""


def set_in_question(review: Review, trusted: frozenset[str]) -> Key | None:
    """The set whose annotations decide about a request; None where it is allowed at once."""
    if review.operation == "CONNECT" or review.user_info.username in trusted:
        return None
    if review.operation == "DELETE" and (review.resource.group, review.resource.resource) == (
        "",
        "pods",
    ):
        return None
    # Of an object that exists, what it is counts, not what somebody would make of it.
    labels = _labels(review.object if review.old_object is None else review.old_object)
    if labels.get(names.MANAGED_BY) != names.OPERATOR or not labels.get(names.PART_OF):
        return None
    return review.namespace, labels[names.PART_OF]


def verdict(review: Review, set_key: Key, annotations: Mapping[str, str] | None) -> Answer:
    """The answer, given the annotations of the set; None where there is no such set (any more)."""
    if annotations is None or annotations.get(names.UNPROTECTED) == "true":
        return Allowed()
    resource = ".".join(filter(None, (review.resource.resource, review.resource.group)))
    return Denied(
        f'{resource} "{review.name}" belongs to PodCliqueSet "{set_key[1]}" and is kept by its '
        f'operator: user "{review.user_info.username}" may not {review.operation} it. Change the '
        f'PodCliqueSet instead, or annotate that with {names.UNPROTECTED}="true"'
    )


def _labels(obj: JsonObject | None) -> Mapping[str, str]:
    metadata = cast(JsonObject, (obj or {}).get("metadata") or {})
    return metadata.get("labels") or {}
