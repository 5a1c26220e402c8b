"""The status of a workload and of its gang. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msgspec.structs import replace

from kilonova.api.kgwe import GPUWorkload, GPUWorkloadStatus
from kilonova.api.kgwe.gpuworkload import Phase
from kilonova.api.meta import Condition
from kilonova.api.podgang import Phase as GangPhase
from kilonova.api.podgang import PodGang, PodGangStatus
from kilonova.api.times import format_rfc3339
from kilonova.gpu.controllers.gpuworkload.observed import ObservedWorkload, is_gated
from kilonova.gpu.controllers.gpuworkload.placement import WorkloadPlacement, read_placement
from kilonova.gpu.controllers.gpuworkload.split import Split
from kilonova.kube.status import find_condition, is_condition_true, with_condition
from kilonova.scheduler.objects.core_v1 import Pod

ACCEPTED, SCHEDULED, RUNNING, COMPLETE, FAILED = (
    "Accepted",
    "Scheduled",
    "Running",
    "Complete",
    "Failed",
)
"""Types of conditions."""
FINAL_PHASES: tuple[Phase, ...] = ("Succeeded", "Failed")
_GANG_CONDITIONS = ("Initialized", SCHEDULED, "Ready")
"""Those that the scheduler does not write."""
_UNSCHEDULABLE = "Unschedulable"
"""The condition of a gang by which the scheduler reports why it is pending."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the pods of the current incarnation are."""

    split: Split
    pods: Sequence[Pod]
    gang: PodGang | None

    @property
    def is_created(self) -> bool:
        """Whether all pods exist and may be scheduled."""
        return len(self.pods) >= self.split.pods and not any(map(is_gated, self.pods))

    @property
    def bound(self) -> int:
        """The number of pods with a node."""
        return sum(bool(pod.spec.node_name) for pod in self.pods)

    @property
    def running(self) -> int:
        """The number of pods that run, or have succeeded."""
        return sum(pod.status.phase in ("Running", "Succeeded") for pod in self.pods)

    @property
    def is_scheduled(self) -> bool:
        """Whether all pods have a node."""
        return self.bound >= self.split.pods

    @property
    def is_running(self) -> bool:
        """Whether all pods run, or have succeeded."""
        return self.is_scheduled and self.running >= self.split.pods

    @property
    def is_ready(self) -> bool:
        """Whether all pods are ready, or have succeeded."""
        ready = sum(
            pod.status.phase == "Succeeded" or is_condition_true(pod.status.conditions, "Ready")
            for pod in self.pods
        )
        return self.is_scheduled and ready >= self.split.pods

    @property
    def phase(self) -> Phase:
        """The phase, as far as pods decide it."""
        if self.is_running:
            return "Running"
        if self.is_scheduled:
            return "Scheduled"
        return "Scheduling" if self.is_created else "Pending"


def build_accepted(workload: GPUWorkload, *, has_other_template: bool = False) -> Condition:
    """The condition of a valid spec."""
    if not has_other_template:
        return Condition(ACCEPTED, "True", "Valid", "the spec is valid")
    message = (
        "the spec was changed after the pods had got their nodes, and they keep the former one: "
        f"delete a pod of the workload to replace all of them (generation "
        f"{workload.metadata.generation})"
    )
    return Condition(ACCEPTED, "True", "ChangedAfterPlacement", message)


def build_status(
    observed: ObservedWorkload,
    progress: Progress,
    accepted: Condition,
    now: datetime,
    waiting: Condition | None = None,
) -> GPUWorkloadStatus:
    """The status of a workload that has not ended. `waiting` states why pods are not created."""
    workload, split = observed.workload, progress.split
    old, preference = workload.status, workload.spec.gpu_requirements.preference
    placement = read_placement(progress.pods, preference, observed.read_devices)
    gang = progress.gang
    locality = gang.status.placement_score if gang is not None and split.pods > 1 else None
    score, parts = placement.rate(locality if progress.is_scheduled else None)
    nodes = tuple(sorted({pod.spec.node_name for pod in progress.pods if pod.spec.node_name}))
    scheduled = waiting or _build_scheduled(progress, nodes, placement, score)
    running = _build_running(progress)
    conditions = old.conditions
    for each in (accepted, scheduled, running):
        conditions = with_condition(conditions, each, now)
    started = old.start_time
    if progress.is_running and started is None:
        started = format_rfc3339(now)
    return replace(
        old,
        observed_generation=workload.metadata.generation,
        phase=progress.phase,
        pods=split.pods,
        scheduled_node=",".join(nodes),
        nodes=nodes,
        allocated_gpus=placement.gpus,
        mig_instances=placement.instances,
        scheduling_score=score,
        score_parts=parts,
        estimated_bandwidth=placement.bandwidth,
        conditions=conditions,
        start_time=started,
    )


def end_workload(
    workload: GPUWorkload,
    phase: Literal["Succeeded", "Failed"],
    reason: str,
    message: str,
    now: datetime,
) -> GPUWorkloadStatus:
    """The status of a workload that ends now."""
    old = workload.status
    ended = Condition(COMPLETE if phase == "Succeeded" else FAILED, "True", reason, message)
    running = Condition(RUNNING, "False", reason, message)
    conditions = with_condition(with_condition(old.conditions, running, now), ended, now)
    return replace(
        old,
        observed_generation=workload.metadata.generation,
        phase=phase,
        conditions=conditions,
        # A short program may end before it was seen to run.
        start_time=old.start_time or (format_rfc3339(now) if phase == "Succeeded" else None),
        completion_time=format_rfc3339(now),
    )


def build_gang_status(progress: Progress, now: datetime) -> PodGangStatus | None:
    """The part of the gang's status that is not the scheduler's; None without a gang."""
    gang = progress.gang
    if gang is None:
        return None
    old = gang.status
    facts = (
        (
            "Initialized",
            progress.is_created,
            ("PodGangPodsCreated", "PodGangPodsCreationPending"),
            "all pods are created",
        ),
        (
            SCHEDULED,
            progress.is_scheduled,
            ("SufficientScheduledPods", "InsufficientScheduledPods"),
            "all pods have a node",
        ),
        (
            "Ready",
            progress.is_ready,
            ("SufficientReadyPods", "InsufficientReadyPods"),
            "all pods are ready",
        ),
    )
    conditions: tuple[Condition, ...] = ()
    for type_, is_true, reasons, fact in facts:
        found = find_condition(old.conditions, type_)
        kept = (*conditions, found) if found is not None else conditions
        status, reason = ("True", reasons[0]) if is_true else ("False", reasons[1])
        message = fact if is_true else f"not {fact}"
        conditions = with_condition(kept, Condition(type_, status, reason, message), now)
    return PodGangStatus(
        phase=_get_gang_phase(progress),
        conditions=conditions,
        last_scheduled=_keep_time(progress.is_scheduled, old.last_scheduled, now),
        last_ready=_keep_time(progress.is_ready, old.last_ready, now),
    )


def build_ended_gang_status(gang: PodGang) -> PodGangStatus:
    """The same of a gang whose pods have all succeeded."""
    old = gang.status
    conditions = tuple(each for each in old.conditions if each.type in _GANG_CONDITIONS)
    return PodGangStatus(
        phase="Succeeded",
        conditions=conditions,
        last_scheduled=old.last_scheduled,
        last_ready=old.last_ready,
    )


def _build_scheduled(
    progress: Progress, nodes: Sequence[str], placement: WorkloadPlacement, score: int | None
) -> Condition:
    if progress.is_scheduled:
        count = progress.split.pods * progress.split.gpus
        what = "MIG instance" if placement.instances else "GPU"
        what += "" if count == 1 else "s"
        rated = "" if score is None else f", score {score}"
        message = f"{count} {what} on {', '.join(nodes)}{rated}"
        return Condition(SCHEDULED, "True", "Scheduled", message)
    if not progress.is_created:
        message = f"{len(progress.pods)} of {progress.split.pods} pods are created"
        return Condition(SCHEDULED, "False", "PodsPending", message)
    gang = progress.gang
    found = None if gang is None else find_condition(gang.status.conditions, _UNSCHEDULABLE)
    if found is not None and found.status == "True":
        return Condition(SCHEDULED, "False", found.reason or _UNSCHEDULABLE, found.message)
    message = f"{progress.bound} of {progress.split.pods} pods have a node"
    return Condition(SCHEDULED, "False", "WaitingForScheduler", message)


def _build_running(progress: Progress) -> Condition:
    if progress.is_running:
        return Condition(RUNNING, "True", "PodsRunning", "all pods run")
    message = f"{progress.running} of {progress.split.pods} pods run"
    return Condition(RUNNING, "False", "PodsPending", message)


def _get_gang_phase(progress: Progress) -> GangPhase:
    if progress.is_ready:
        return "Running"
    return "Starting" if progress.is_scheduled else "Pending"


def _keep_time(is_true: bool, last: str | None, now: datetime) -> str | None:
    """When a condition of this incarnation became true: none while it is not, so that a partial
    gang of the next incarnation is released by the scheduler as one that never ran."""
    return (last or format_rfc3339(now)) if is_true else None
