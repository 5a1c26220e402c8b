"""Resolves the argument of `kilonova why` to placement reports."""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api import podgang, scheduling
from kilonova.cli.why.workload_members import (
    OWNER_KINDS,
    OwnerKind,
    find_members,
    has_owner_of_kind,
    parse_owner_kind,
)
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.scheduler.library.placement_report import (
    PlacementReport,
    report_placement,
    reportable_names,
)
from kilonova.scheduler.library.snapshots.capture import CapturedSnapshot
from kilonova.scheduler.objects.pod_groups import (
    COSCHEDULING_POD_GROUPS,
    KUBERNETES_POD_GROUPS,
)

_SCHEDULED = (
    (("pod", "pods", "po"), ()),
    (("gang", "podgang", "podgangs", "pg"), (podgang.GROUP,)),
    (("podgroup", "podgroups"), (COSCHEDULING_POD_GROUPS.group, KUBERNETES_POD_GROUPS.group)),
    (("rsv", "reservation", "reservations"), (scheduling.GROUP,)),
)
"""Names of what is scheduled itself, and the API groups that may follow them."""
_KINDS_WITHOUT_PODS = frozenset(
    [
        "service",
        "svc",
        "configmap",
        "cm",
        "secret",
        "namespace",
        "ns",
        "event",
        "ingress",
        "ing",
        "persistentvolumeclaim",
        "pvc",
        "persistentvolume",
        "pv",
        "serviceaccount",
        "sa",
        "endpoints",
        "networkpolicy",
        "queue",
    ]
)
"""Built-in kinds that own no pods: rejected without a request to the cluster."""

_STATE_ORDER = ("Unschedulable", "NotReady", "Schedulable", "Placed")
_MAX_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True)
class Target:
    """What a question is about: a pod, gang or reservation if `is_scheduled`, the workload of a
    kind if `kind` is set; either, of any kind, if only a name is given."""

    name: str
    is_scheduled: bool = True
    is_workload: bool = True
    kind: OwnerKind | None = None


def parse_target(argument: str) -> Target:
    """The target that NAME or KIND/NAME names."""
    typed, slash, name = argument.rpartition("/")
    if not name or "/" in typed or (slash and not typed):
        raise WrongUsage(f"{argument!r}: write NAME or KIND/NAME, such as job/train")
    if not slash:
        return Target(argument)
    resource, dot, group = typed.lower().partition(".")
    if any(resource in words and (not dot or group in groups) for words, groups in _SCHEDULED):
        return Target(name, is_workload=False)
    if resource in _KINDS_WITHOUT_PODS and not dot:
        raise _unknown_kind_error(resource)
    return Target(name, is_scheduled=False, kind=parse_owner_kind(typed))


def validate_kind(captured: CapturedSnapshot, target: Target) -> None:
    """Reject a kind that owns no pods: neither a well-known owner, nor the kind of an owner of any
    pod or gang."""
    kind = target.kind
    if kind is None or kind.is_well_known:
        return
    if not has_owner_of_kind(kind, captured.pods, captured.gangs):
        raise _unknown_kind_error(str(kind))


def _unknown_kind_error(kind: str) -> WrongUsage:
    kinds = ", ".join(("pod", "podgang", "podgroup", "reservation", *OWNER_KINDS))
    return WrongUsage(f"no kind {kind!r} that owns pods; known are {kinds}")


def find_answers(
    captured: CapturedSnapshot, target: Target, namespace: str
) -> PlacementReport | list[PlacementReport]:
    """The report on a pod or gang; for a workload, those on all its gangs and pods."""
    snapshot, name, kind = captured.cluster_snapshot, target.name, target.kind
    report = None
    if target.is_scheduled:
        report = report_placement(snapshot, namespace, name, captured.unserved)
    if report is not None:
        return report
    members: list[str] = []
    if target.is_workload:
        members = find_members(kind, namespace, name, captured.pods, captured.gangs)
    reports = (report_placement(snapshot, namespace, each, captured.unserved) for each in members)
    by_gang = {each.gang: each for each in reports if each is not None}
    if by_gang:
        return sorted(
            by_gang.values(), key=lambda each: (_STATE_ORDER.index(each.state), each.gang)
        )
    if members:
        subject = "the pod" if len(members) == 1 else f"all {len(members)} pods and gangs"
        raise CommandFailed(
            f"{subject} of {strip_control_characters(name)} in namespace {namespace} "
            f"{'has' if len(members) == 1 else 'have'} terminated"
        )
    hint = strip_control_characters(_suggest_names(reportable_names(snapshot), namespace, name))
    if kind is not None:
        raise CommandFailed(
            f"no pod or gang of {kind} {name!r} in namespace {namespace}: it is suspended or "
            f"scaled to 0, has no pods yet, or does not exist; {hint}"
        )
    raise CommandFailed(
        f"no pod or gang {name!r} in namespace {namespace} is placed by or pending for "
        f"kilonova-scheduler: {hint}"
    )


def _suggest_names(known: Iterable[str], namespace: str, name: str) -> str:
    """Suggest the same name in other namespaces, else names that start with this one."""
    keys = [key.split("/", 1) for key in known]
    matches = [key for key in keys if key[1] == name]
    matches = matches or [
        key for key in keys if key[0] == namespace and _is_created_by(name, key[1])
    ]
    matches = matches or [key for key in keys if _is_created_by(name, key[1])]
    if not matches:
        return "check -n and the schedulerName of the pod"
    nearest = sorted(matches, key=lambda key: (len(key[1]), key))[:_MAX_SUGGESTIONS]
    return f"did you mean {' or '.join(f'{each} -n {space}' for space, each in nearest)}?"


def _is_created_by(workload: str, name: str) -> bool:
    return name.startswith(f"{workload}-")
