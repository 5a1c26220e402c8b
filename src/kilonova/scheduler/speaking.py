"""Which object speaks for a gang, and what it says of its place. Pure."""

from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.api.times import rfc3339
from kilonova.kube import Resource
from kilonova.scheduler.groupobjects import COSCHEDULED, NATIVE, SCHEDULED
from kilonova.scheduler.objects import GANGS
from kilonova.scheduler.reading.podgroups import NATIVE_KIND, GroupGang
from kilonova.scheduler.verdicts import Verdict

UNSCHEDULABLE = "Unschedulable"


def subject_of(gang: PodGang) -> tuple[Resource[Any], str]:
    """The object by which people know a gang: its kind and its namespace."""
    if not isinstance(gang, GroupGang):
        return GANGS, gang.metadata.namespace
    kind, _, namespace = gang.metadata.namespace.partition("/")
    return NATIVE if kind == NATIVE_KIND else COSCHEDULED, namespace


def told_by(gang: PodGang, verdict: Verdict) -> Condition | None:
    """The condition that tells a verdict; None if none does. A PodGroup that had its place once is
    scheduled for good, as with the scheduler of Kubernetes; `groupstatus` tells that it has."""
    if not isinstance(gang, GroupGang):
        status = "False" if verdict.placed else "True"
        return Condition(UNSCHEDULABLE, status, verdict.reason, verdict.message)
    resource, _ = subject_of(gang)
    if resource is not NATIVE or verdict.placed or gang.status.last_scheduled:
        return None
    return Condition(SCHEDULED, "False", UNSCHEDULABLE, verdict.message)


def wire(new: Condition, old: Condition | None, now: datetime) -> JsonObject:
    """A condition as it is written; its time changes only with its status."""
    since = old.last_transition_time if old is not None and old.status == new.status else None
    return {
        "type": new.type,
        "status": new.status,
        "reason": new.reason,
        "message": new.message,
        "lastTransitionTime": since or rfc3339(now),
    }
