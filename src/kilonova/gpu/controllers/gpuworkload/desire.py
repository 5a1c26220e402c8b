"""What to write for a workload. Pure.

    Pending ─► Scheduling ─► Scheduled ─► Running ─► Succeeded
       └────────────┴────────────┴───────────┴─────► Failed

The gang is written before its pods, and pods are gated until all of them exist. Succeeded and
Failed are final.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkloadStatus, names
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGangStatus
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.gpu.controllers.gpuworkload import gang as gangs
from kilonova.gpu.controllers.gpuworkload.affinity import list_awaited_pods
from kilonova.gpu.controllers.gpuworkload.environment import needs_service
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec
from kilonova.gpu.controllers.gpuworkload.observed import (
    ObservedWorkload,
    describe_failure,
    get_rank,
    is_disrupted,
    is_gated,
    is_terminating,
)
from kilonova.gpu.controllers.gpuworkload.pods import (
    build_pod,
    compute_template_hash,
    convert_shape,
    uses_own_priority,
)
from kilonova.gpu.controllers.gpuworkload.split import (
    Split,
    build_split,
    choose_split,
    get_least_size,
)
from kilonova.gpu.controllers.gpuworkload.status import (
    FINAL_PHASES,
    SCHEDULED,
    Progress,
    build_accepted,
    build_ended_gang_status,
    build_gang_status,
    build_status,
    end_workload,
)
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube.status import find_condition, is_condition_true, with_condition
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.objects.core_v1 import Pod

LATENCY_EXCEEDED = "SchedulingLatencyExceeded"
POD_FAILED = "PodFailed"
RESTARTED = "Restarted"
WAITING_FOR_PODS = "WaitingForReferencedPods"
_RESTART_INTERVAL_SECONDS = 10.0
"""Pods that nodes reject at once are not replaced more often."""
_REFERENCE_RETRY_SECONDS = 5.0
"""Pods that constraints name are not watched."""


@dataclass(frozen=True, slots=True)
class WorkloadEvent:
    """An event to record."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """What to write, in this order; the status last, unless `status_first`."""

    status: GPUWorkloadStatus
    status_first: bool = False
    """Nothing else is written before the status shows: it decides what else there is to do."""
    delete: tuple[Pod, ...] = ()
    delete_gang: bool = False
    priority_class: JsonObject | None = None
    service: JsonObject | None = None
    gang: JsonObject | None = None
    create: tuple[JsonObject, ...] = ()
    ungate: tuple[Pod, ...] = ()
    gang_status: PodGangStatus | None = None
    events: tuple[WorkloadEvent, ...] = ()
    requeue_after: float | None = None


def desire(observed: ObservedWorkload, now: datetime, settings: ControllerSettings) -> WorkloadPlan:
    """What to write for a workload that is not being deleted."""
    workload = observed.workload
    if workload.status.phase in FINAL_PHASES:
        return _clean_up(observed)
    try:
        split = _choose_split(observed, settings)
        missing = _list_missing(observed.current_pods, split)
        pods = _build_pods(observed, split, missing, settings)
    except InvalidSpec as error:
        return _reject(observed, error, now)
    if (end := _find_end(observed, split, now)) is not None:
        return WorkloadPlan(end, status_first=True, events=(_describe_end(end),))
    if (reason := _find_restart_reason(observed, split)) is not None:
        return _restart(observed, reason, now)
    return _proceed(observed, split, pods, now)


def _clean_up(observed: ObservedWorkload) -> WorkloadPlan:
    """Delete what still runs of a workload that has ended. Ended pods stay, with their logs."""
    active = tuple(pod for pod in observed.own_pods if not pod.ended and not is_terminating(pod))
    status, gang = observed.workload.status, observed.own_gang
    # A gang without its pods would be reported as pending.
    is_incomplete = status.phase == "Failed"
    return WorkloadPlan(
        status,
        delete=active,
        delete_gang=is_incomplete and gang is not None,
        gang_status=None if is_incomplete or gang is None else build_ended_gang_status(gang),
    )


def _choose_split(observed: ObservedWorkload, settings: ControllerSettings) -> Split:
    """The split that exists once a pod has a node; before, the one that fits the nodes."""
    spec, gang = observed.workload.spec, observed.own_gang
    current = len(gang.spec.pod_groups[0].pod_references) if gang and gang.spec.pod_groups else None
    amount = spec.gpu_requirements.amount
    if current and observed.is_placed and amount % current == 0:
        return build_split(spec, current)
    probe = build_split(spec, 1)
    shape = convert_shape(
        build_pod(observed.workload, probe, 0, settings, observed.referenced_pods)
    )
    sizes = range(get_least_size(spec), amount + 1)
    # Where no node has the bandwidth, the number of GPUs alone decides: the scheduler reports why
    # the gang waits.
    for each in (shape, _without_bandwidth(shape)):
        if any(observed.fits(each, size) for size in sizes):
            return choose_split(spec, lambda size, each=each: observed.fits(each, size), current)
    # No such node: its scheduler, or an autoscaler, will say more.
    return choose_split(spec, lambda size: size <= settings.gpus_per_node, current)


def _without_bandwidth(shape: Shape) -> Shape:
    if shape.gpu is None:
        return shape
    return dataclasses.replace(shape, gpu=dataclasses.replace(shape.gpu, bandwidth=0))


def _build_pods(
    observed: ObservedWorkload, split: Split, ranks: Sequence[int], settings: ControllerSettings
) -> list[JsonObject]:
    workload = observed.workload
    return [
        build_pod(
            workload,
            split,
            rank,
            settings,
            observed.referenced_pods,
            incarnation=workload.status.incarnation,
        )
        for rank in ranks
    ]


def _reject(observed: ObservedWorkload, error: InvalidSpec, now: datetime) -> WorkloadPlan:
    workload = observed.workload
    accepted = Condition("Accepted", "False", error.reason, str(error))
    old = find_condition(workload.status.conditions, "Accepted")
    is_new = old is None or (old.reason, old.message) != (error.reason, str(error))
    conditions = with_condition(workload.status.conditions, accepted, now)
    if not is_condition_true(conditions, SCHEDULED):
        # `kubectl get` shows the message of this one.
        scheduled = Condition(SCHEDULED, "False", error.reason, str(error))
        conditions = with_condition(conditions, scheduled, now)
    status = replace(
        workload.status,
        observed_generation=workload.metadata.generation,
        conditions=conditions,
    )
    # Pods that were made from a valid spec wait until it is valid again, or run to their end.
    events = (WorkloadEvent(error.reason, str(error), is_warning=True),) if is_new else ()
    return WorkloadPlan(status, events=events)


def _find_end(observed: ObservedWorkload, split: Split, now: datetime) -> GPUWorkloadStatus | None:
    """The final status, if the workload has ended."""
    workload, pods = observed.workload, observed.current_pods
    succeeded = {get_rank(pod) for pod in pods if pod.status.phase == "Succeeded"}
    if len(succeeded) == split.pods:
        return end_workload(workload, "Succeeded", "PodsSucceeded", "all pods have succeeded", now)
    failed = [pod for pod in pods if pod.status.phase == "Failed" and not is_disrupted(pod)]
    if failed:
        message = describe_failure(failed[0])
        return end_workload(workload, "Failed", POD_FAILED, message, now)
    remaining = _get_remaining_latency(observed, now)
    if remaining is not None and remaining <= 0:
        constraints = workload.spec.constraints
        limit = constraints.max_scheduling_latency if constraints is not None else ""
        message = (
            f"not scheduled within spec.constraints.maxSchedulingLatency ({limit}): "
            f"{_describe_wait(observed)}"
        )
        return end_workload(workload, "Failed", LATENCY_EXCEEDED, message, now)
    return None


def _get_remaining_latency(observed: ObservedWorkload, now: datetime) -> float | None:
    """Seconds that the workload may still wait for nodes; None if it need not hurry."""
    workload = observed.workload
    constraints = workload.spec.constraints
    limit = None if constraints is None else constraints.max_scheduling_latency
    if limit is None or workload.status.phase not in ("Pending", "Scheduling"):
        return None
    scheduled = find_condition(workload.status.conditions, "Scheduled")
    since = None if scheduled is None else scheduled.last_transition_time
    start = parse_time(since or workload.metadata.creation_timestamp)
    return parse_duration(limit) - (now - start).total_seconds()


def _describe_wait(observed: ObservedWorkload) -> str:
    found = find_condition(observed.workload.status.conditions, "Scheduled")
    return found.message if found is not None and found.message else "waiting for the scheduler"


def _find_restart_reason(observed: ObservedWorkload, split: Split) -> str | None:
    """Why all pods have to be replaced; None if they need not be."""
    pods = observed.current_pods
    for pod in pods:
        if pod.status.phase == "Succeeded":
            continue
        if is_disrupted(pod):
            return f"pod {pod.metadata.name} was disrupted: {_describe_disruption(pod)}"
        if is_terminating(pod):
            return f"pod {pod.metadata.name} was deleted"
    if any(not is_gated(pod) for pod in pods) and (missing := _list_missing(pods, split)):
        name = names.pod(
            observed.workload.metadata.name, missing[0], observed.workload.status.incarnation
        )
        return f"pod {name} is gone"
    if pods and not observed.is_placed:
        wanted = compute_template_hash(observed.workload, split)
        if any(pod.metadata.annotations.get(names.TEMPLATE_HASH) != wanted for pod in pods):
            return "the spec, or the number of pods that fit the nodes, has changed"
    return None


def _describe_disruption(pod: Pod) -> str:
    found = find_condition(pod.status.conditions, "DisruptionTarget")
    if found is not None and found.status == "True":
        return f"{found.reason}: {found.message}" if found.message else found.reason
    return pod.status.reason


def _list_missing(pods: Sequence[Pod], split: Split) -> list[int]:
    present = {get_rank(pod) for pod in pods}
    return [rank for rank in range(split.pods) if rank not in present]


def _restart(observed: ObservedWorkload, reason: str, now: datetime) -> WorkloadPlan:
    """The next incarnation. The status is written before pods are deleted: after a crash it says
    which pods are the former ones."""
    status = observed.workload.status
    if status.last_restart_time is not None:
        since = (now - parse_time(status.last_restart_time)).total_seconds()
        if since < _RESTART_INTERVAL_SECONDS:
            return WorkloadPlan(status, requeue_after=_RESTART_INTERVAL_SECONDS - since)
    message = f"Replacing all pods: {reason}"
    waiting = Condition("Scheduled", "False", RESTARTED, reason)
    running = Condition("Running", "False", RESTARTED, reason)
    conditions = with_condition(status.conditions, waiting, now)
    started = replace(
        status,
        phase="Pending",
        incarnation=status.incarnation + 1,
        last_restart_time=format_rfc3339(now),
        conditions=with_condition(conditions, running, now),
        scheduled_node="",
        nodes=(),
        allocated_gpus=(),
        mig_instances=(),
        scheduling_score=None,
        score_parts=None,
        estimated_bandwidth=None,
    )
    event = WorkloadEvent(RESTARTED, message, is_warning=observed.is_placed)
    return WorkloadPlan(started, status_first=True, events=(event,))


def _proceed(
    observed: ObservedWorkload, split: Split, pods: Sequence[JsonObject], now: datetime
) -> WorkloadPlan:
    """Go on: `pods` are those that do not exist."""
    workload, spec = observed.workload, observed.workload.spec
    former = tuple(pod for pod in observed.former_pods if not is_terminating(pod))
    awaited = list_awaited_pods(
        spec.constraints, workload.metadata.namespace, observed.referenced_pods
    )
    progress = Progress(split, observed.current_pods, observed.own_gang)
    waits = [_get_remaining_latency(observed, now)]
    if pods and awaited:
        where = ", ".join("/".join(each) for each in awaited)
        message = f"waiting until the pods of spec.constraints.colocateWith have a node: {where}"
        waiting = Condition("Scheduled", "False", WAITING_FOR_PODS, message)
        status = build_status(observed, progress, build_accepted(workload), now, waiting)
        waits.append(_REFERENCE_RETRY_SECONDS)
        return WorkloadPlan(status, delete=former, requeue_after=_least(waits))
    accepted = build_accepted(workload, has_other_template=_has_other_template(observed, split))
    status = build_status(observed, progress, accepted, now)
    return WorkloadPlan(
        status,
        delete=former,
        priority_class=(
            gangs.build_priority_class(spec.priority) if pods and uses_own_priority(spec) else None
        ),
        service=gangs.build_service(workload) if needs_service(split) else None,
        gang=gangs.build_gang(workload, split, workload.status.incarnation),
        create=tuple(pods),
        ungate=() if pods else _select_pods_to_ungate(observed),
        gang_status=build_gang_status(progress, now),
        events=_list_events(workload.status, status),
        requeue_after=_least(waits),
    )


def _select_pods_to_ungate(observed: ObservedWorkload) -> tuple[Pod, ...]:
    """The gated pods of a workload whose pods all exist, once the gang lists them."""
    gang = observed.own_gang
    if gang is None:
        return ()
    listed = {each.name for group in gang.spec.pod_groups for each in group.pod_references}
    current = observed.current_pods
    if not all(pod.metadata.name in listed for pod in current):
        return ()
    return tuple(pod for pod in current if is_gated(pod))


def _has_other_template(observed: ObservedWorkload, split: Split) -> bool:
    """Whether pods run that were made from another spec."""
    wanted = compute_template_hash(observed.workload, split)
    return observed.is_placed and any(
        pod.metadata.annotations.get(names.TEMPLATE_HASH) != wanted for pod in observed.current_pods
    )


def _list_events(old: GPUWorkloadStatus, new: GPUWorkloadStatus) -> tuple[WorkloadEvent, ...]:
    before, after = (find_condition(each.conditions, "Scheduled") for each in (old, new))
    was, now = (each is not None and each.status == "True" for each in (before, after))
    if now and not was and after is not None:
        return (WorkloadEvent("Scheduled", after.message),)
    return ()


def _describe_end(status: GPUWorkloadStatus) -> WorkloadEvent:
    type_ = "Complete" if status.phase == "Succeeded" else "Failed"
    found = find_condition(status.conditions, type_)
    message = "" if found is None else found.message
    reason = type_ if found is None else found.reason
    return WorkloadEvent(reason, message[:1].upper() + message[1:], type_ == "Failed")


def _least(waits: Sequence[float | None]) -> float | None:
    return min((each for each in waits if each is not None), default=None)
