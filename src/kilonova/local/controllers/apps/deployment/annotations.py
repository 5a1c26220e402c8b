"""What a Deployment notes on its ReplicaSets: revisions, and the number it last wanted. Pure."""

import re
from collections.abc import Iterable

from kilonova.local.controllers.apps.objects import Deployment, ReplicaSet

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"

_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
}
_HISTORY_LIMIT = 2000
"""Characters of past revisions that are kept."""

_is_number = re.compile("[0-9]+").fullmatch
_is_integer = re.compile("[+-]?[0-9]+").fullmatch


def revision_of(each: ReplicaSet) -> int | None:
    """The number of a set's revision, 0 if it has none yet; None where it is no number."""
    text = each.metadata.annotations.get(REVISION, "0")
    return int(text) if _is_integer(text) else None


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """One more than the highest among them."""
    return max([revision_of(each) or 0 for each in old], default=0) + 1


def desired_of(each: ReplicaSet) -> int | None:
    """The number that the Deployment wanted when it last sized this set."""
    return _number(each, DESIRED)


def max_of(each: ReplicaSet) -> int | None:
    """The most pods that the Deployment allowed when it last sized this set."""
    return _number(each, MAX)


def _number(each: ReplicaSet, name: str) -> int | None:
    text = each.metadata.annotations.get(name, "")
    return int(text) if _is_number(text) and int(text) < 1 << 31 else None


def size_notes(deployment: Deployment, surge: int) -> dict[str, str]:
    """What is noted on a set that is sized."""
    wanted = deployment.spec.replicas
    return {DESIRED: str(wanted), MAX: str(wanted + surge)}


def copied_notes(deployment: Deployment) -> dict[str, str]:
    """The Deployment's own annotations, as far as its newest set gets them."""
    known = deployment.metadata.annotations
    return {name: value for name, value in known.items() if name not in _NOT_COPIED}


def revision_notes(new: ReplicaSet, revision: int) -> dict[str, str]:
    """What is noted on a set that is the newest (again): its number, and those it had."""
    present = revision_of(new)
    if present is None or present >= revision:
        return {}
    notes = {REVISION: str(revision)}
    if before := new.metadata.annotations.get(REVISION):
        notes |= _history(new, before)
    return notes


def _history(new: ReplicaSet, before: str) -> dict[str, str]:
    known = new.metadata.annotations.get(HISTORY, "")
    past = [*known.split(","), before] if known else [before]
    while len(past) > 1 and len(",".join(past)) > _HISTORY_LIMIT:
        del past[0]
    return {HISTORY: ",".join(past)}
