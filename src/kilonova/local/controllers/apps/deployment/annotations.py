"""Annotations of a Deployment on its ReplicaSets: revisions and desired replicas. Pure."""

import re
from collections.abc import Iterable

from kilonova.local.controllers.apps.objects import Deployment, ReplicaSet

REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
REVISION_HISTORY_ANNOTATION = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS_ANNOTATION = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS_ANNOTATION = "deployment.kubernetes.io/max-replicas"

_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION_ANNOTATION,
    REVISION_HISTORY_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    "deprecated.deployment.rollback.to",
}
_MAX_HISTORY_LENGTH = 2000
"""The maximum length of the revision history annotation."""

_is_number = re.compile("[0-9]+").fullmatch
_is_integer = re.compile("[+-]?[0-9]+").fullmatch


def revision_of(each: ReplicaSet) -> int | None:
    """The revision of a ReplicaSet, 0 if it has none yet; None if it is not a number."""
    text = each.metadata.annotations.get(REVISION_ANNOTATION, "0")
    return int(text) if _is_integer(text) else None


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """One more than the highest revision among them."""
    return max([revision_of(each) or 0 for each in old], default=0) + 1


def desired_replicas_of(each: ReplicaSet) -> int | None:
    """The replicas that the Deployment desired when it last scaled this ReplicaSet."""
    return _parse_annotation(each, DESIRED_REPLICAS_ANNOTATION)


def max_replicas_of(each: ReplicaSet) -> int | None:
    """The maximum number of pods of the Deployment when it last scaled this ReplicaSet."""
    return _parse_annotation(each, MAX_REPLICAS_ANNOTATION)


def _parse_annotation(each: ReplicaSet, name: str) -> int | None:
    text = each.metadata.annotations.get(name, "")
    return int(text) if _is_number(text) and int(text) < 1 << 31 else None


def build_size_annotations(deployment: Deployment, surge: int) -> dict[str, str]:
    """The annotations of a ReplicaSet that is scaled."""
    desired = deployment.spec.replicas
    return {
        DESIRED_REPLICAS_ANNOTATION: str(desired),
        MAX_REPLICAS_ANNOTATION: str(desired + surge),
    }


def copy_deployment_annotations(deployment: Deployment) -> dict[str, str]:
    """The Deployment's annotations that its newest ReplicaSet inherits."""
    history = deployment.metadata.annotations
    return {name: value for name, value in history.items() if name not in _NOT_COPIED}


def build_revision_annotations(new: ReplicaSet, revision: int) -> dict[str, str]:
    """The annotations of a ReplicaSet that becomes the newest: its revision, and earlier ones."""
    present = revision_of(new)
    if present is None or present >= revision:
        return {}
    annotations = {REVISION_ANNOTATION: str(revision)}
    if before := new.metadata.annotations.get(REVISION_ANNOTATION):
        annotations |= _extend_history(new, before)
    return annotations


def _extend_history(new: ReplicaSet, before: str) -> dict[str, str]:
    history = new.metadata.annotations.get(REVISION_HISTORY_ANNOTATION, "")
    past = [*history.split(","), before] if history else [before]
    while len(past) > 1 and len(",".join(past)) > _MAX_HISTORY_LENGTH:
        del past[0]
    return {REVISION_HISTORY_ANNOTATION: ",".join(past)}
