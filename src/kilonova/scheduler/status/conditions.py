"""The object that represents a gang to users, and its condition. Pure."""

from typing import Any

from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.kube import Resource
from kilonova.scheduler.convert.gangs.pod_groups import NATIVE_KIND, PodGroupGang
from kilonova.scheduler.objects.core_v1 import GANGS
from kilonova.scheduler.objects.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
    POD_GROUP_SCHEDULED,
)
from kilonova.scheduler.status.results import SchedulingResult

UNSCHEDULABLE = "Unschedulable"


def reported_object(gang: PodGang) -> tuple[Resource[Any], str]:
    """The object that represents a gang to users: its resource and namespace."""
    if not isinstance(gang, PodGroupGang):
        return GANGS, gang.metadata.namespace
    kind, _, namespace = gang.metadata.namespace.partition("/")
    return KUBERNETES_POD_GROUPS if kind == NATIVE_KIND else COSCHEDULING_POD_GROUPS, namespace


def gang_condition(gang: PodGang, result: SchedulingResult) -> Condition | None:
    """The condition for a scheduling result; None if the object has none. A PodGroup that was
    scheduled once stays scheduled, as with kube-scheduler; `pod_group_status` writes that it is."""
    if not isinstance(gang, PodGroupGang):
        status = "False" if result.is_placed else "True"
        return Condition(UNSCHEDULABLE, status, result.reason, result.message)
    resource, _ = reported_object(gang)
    if resource is not KUBERNETES_POD_GROUPS or result.is_placed or gang.status.last_scheduled:
        return None
    return Condition(POD_GROUP_SCHEDULED, "False", UNSCHEDULABLE, result.message)
