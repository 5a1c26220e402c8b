"""Deployments, StatefulSets, Jobs and GPUWorkloads as rows; they may have no pods. Pure."""

from kilonova.api.meta import Condition
from kilonova.catalog.resource_names import GPU
from kilonova.component.console.values import condition_rows, parse_timestamp
from kilonova.console.objects import GpuWorkload, Job, ReplicatedWorkload
from kilonova.console.rows.model import OwnerRow
from kilonova.console.rows.ownership import outer_workload_id
from kilonova.console.rows.pods import queue_name
from kilonova.console.rows.quantities import effective_requests
from kilonova.kube.status import find_condition, is_condition_true

_FINISHED_STATES = {
    "Complete": "Completed",
    "SuccessCriteriaMet": "Completed",
    "Failed": "Failed",
    "FailureTarget": "Failed",
}
"""Conditions of a finished Job. The job controller sets the second of each pair as soon as the
outcome is decided, and the first when the remaining pods have terminated."""


_ENDED_PHASES = {"Succeeded": "Completed", "Failed": "Failed"}
"""The outcomes of GPUWorkloads, by phase."""


def deployment_row(deployment: ReplicatedWorkload) -> OwnerRow:
    """The row of a Deployment."""
    status = deployment.status
    # During a rollout there are more pods than updated ones.
    return _owner_row("Deployment", deployment, updating=status.replicas > status.updated_replicas)


def stateful_set_row(set_: ReplicatedWorkload) -> OwnerRow:
    """The row of a StatefulSet."""
    spec, status = set_.spec, set_.status
    rolling = spec.update_strategy.rolling_update
    desired = spec.replicas - ((rolling.partition if rolling else None) or 0)
    updating = (
        spec.update_strategy.type != "OnDelete"
        and status.current_revision != status.update_revision
        and status.updated_replicas < desired
    )
    return _owner_row("StatefulSet", set_, updating=updating)


def job_row(job: Job) -> OwnerRow:
    """The row of a Job; its outcome is taken from its conditions, not from its pods."""
    spec, status = job.spec, job.status
    outcome = next(
        (name for name in _FINISHED_STATES if is_condition_true(status.conditions, name)), ""
    )
    desired = spec.completions
    if desired is None:
        # Without completions one success suffices; the remaining pods terminate by themselves.
        desired = max(1 if status.succeeded else spec.parallelism, status.active + status.succeeded)
    return OwnerRow(
        id=job.metadata.id,
        kind="Job",
        replicas=desired,
        finished=_FINISHED_STATES.get(outcome, ""),
        suspended=spec.suspend or is_condition_true(status.conditions, "Suspended"),
        deleting=job.metadata.deletion_timestamp is not None,
        parallelism=spec.parallelism,
        ready=status.ready,
        active=status.active,
        succeeded=status.succeeded,
        failed=status.failed,
        gpus=int(effective_requests(spec.template.spec).get(GPU, 0.0)),
        queue=queue_name(spec.template.metadata.labels),
        problem=_first_problem(status.conditions, {"Failed": "True", "FailureTarget": "True"}),
        conditions=condition_rows(status.conditions),
        workload=outer_workload_id("Job", job.metadata),
        created=parse_timestamp(job.metadata.creation_timestamp),
    )


def gpu_workload_row(workload: GpuWorkload) -> OwnerRow:
    """The row of a GPUWorkload. Until it is accepted the number of its pods is unknown: one."""
    requirements, status = workload.spec.gpu_requirements, workload.status
    pods = status.pods or 1
    return OwnerRow(
        id=workload.metadata.id,
        kind="GPUWorkload",
        replicas=pods,
        finished=_ENDED_PHASES.get(status.phase, ""),
        deleting=workload.metadata.deletion_timestamp is not None,
        succeeded=pods if status.phase == "Succeeded" else 0,
        gpus=0 if requirements.mig is not None else requirements.count // pods,
        queue=queue_name(workload.metadata.labels),
        problem=_first_problem(
            status.conditions, {"Failed": "True", "Accepted": "False", "Scheduled": "False"}
        ),
        conditions=condition_rows(status.conditions),
        workload=outer_workload_id("GPUWorkload", workload.metadata),
        created=parse_timestamp(workload.metadata.creation_timestamp),
    )


def _owner_row(kind: str, owner: ReplicatedWorkload, *, updating: bool) -> OwnerRow:
    spec, status = owner.spec, owner.status
    progress = find_condition(status.conditions, "Progressing")
    return OwnerRow(
        id=owner.metadata.id,
        kind=kind,
        replicas=spec.replicas,
        updating=updating,
        deleting=owner.metadata.deletion_timestamp is not None,
        stalled=progress is not None and progress.status == "False",
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        available=status.available_replicas,
        gpus=int(effective_requests(spec.template.spec).get(GPU, 0.0)),
        queue=queue_name(spec.template.metadata.labels),
        problem=_first_problem(
            status.conditions, {"ReplicaFailure": "True", "Progressing": "False"}
        ),
        conditions=condition_rows(status.conditions),
        workload=outer_workload_id(kind, owner.metadata),
        created=parse_timestamp(owner.metadata.creation_timestamp),
    )


def _first_problem(conditions: tuple[Condition, ...], failing: dict[str, str]) -> str:
    """The message of the first failing condition."""
    failed = (each for each in conditions if failing.get(each.type) == each.status)
    return next((each.message or each.reason for each in failed), "")
