"""Deployments, StatefulSets and Jobs as rows: they are there also while they have no pods. Pure."""

import msgspec

from kilonova.api.meta import Condition
from kilonova.console.amounts import asked_for
from kilonova.console.noderows import GPU
from kilonova.console.objects import GroveMeta, PodLabels, PodSpec
from kilonova.console.podrows import queue_of
from kilonova.console.podstate import condition_of, is_true
from kilonova.console.rows import ConditionRow, OwnerRow, moment
from kilonova.kube import Resource


class _TemplateMeta(msgspec.Struct, frozen=True, gc=False):
    labels: PodLabels = PodLabels()


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _TemplateMeta = _TemplateMeta()
    spec: PodSpec = PodSpec()


class _RollingUpdate(msgspec.Struct, frozen=True, gc=False):
    partition: int | None = None


class _Strategy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    rolling_update: _RollingUpdate | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 1
    template: _Template = _Template()
    update_strategy: _Strategy = _Strategy()


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class Replicated(msgspec.Struct, gc=False):
    """A Deployment or a StatefulSet: what is shown of it."""

    metadata: GroveMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _JobSpec(msgspec.Struct, frozen=True, gc=False):
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    template: _Template = _Template()


class _JobStatus(msgspec.Struct, frozen=True, gc=False):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, gc=False):
    """A Job: what is shown of it."""

    metadata: GroveMeta
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Replicated)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, Replicated)
JOBS = Resource("batch", "v1", "jobs", "Job", True, Job)

_ENDINGS = {
    "Complete": "Completed",
    "SuccessCriteriaMet": "Completed",
    "Failed": "Failed",
    "FailureTarget": "Failed",
}
"""Conditions by which a Job is decided. A policy sets the second of each pair as soon as it holds,
and the first follows when the pods that are left have ended."""


def deployment_row(deployment: Replicated) -> OwnerRow:
    """A Deployment as it is shown."""
    status = deployment.status
    # Until all pods are of the newest template, there are more of them than are updated.
    return _row("Deployment", deployment, updating=status.replicas > status.updated_replicas)


def stateful_set_row(set_: Replicated) -> OwnerRow:
    """A StatefulSet as it is shown."""
    spec, status = set_.spec, set_.status
    rolling = spec.update_strategy.rolling_update
    wanted = spec.replicas - ((rolling.partition if rolling else None) or 0)
    updating = (
        spec.update_strategy.type != "OnDelete"
        and status.current_revision != status.update_revision
        and status.updated_replicas < wanted
    )
    return _row("StatefulSet", set_, updating=updating)


def job_row(job: Job) -> OwnerRow:
    """A Job as it is shown: what became of it is what its conditions say, not its pods."""
    spec, status = job.spec, job.status
    decided = next((name for name in _ENDINGS if is_true(status.conditions, name)), "")
    wanted = spec.completions
    if wanted is None:
        # Any success will do, and the pods that run beside it end when they see fit.
        wanted = max(1 if status.succeeded else spec.parallelism, status.active + status.succeeded)
    return OwnerRow(
        id=job.metadata.id,
        kind="Job",
        replicas=wanted,
        finished=_ENDINGS.get(decided, ""),
        suspended=spec.suspend or is_true(status.conditions, "Suspended"),
        deleting=job.metadata.deletion_timestamp is not None,
        parallelism=spec.parallelism,
        ready=status.ready,
        active=status.active,
        succeeded=status.succeeded,
        failed=status.failed,
        gpus=int(asked_for(spec.template.spec, GPU)),
        queue=queue_of(spec.template.metadata.labels),
        problem=_told(status.conditions, {"Failed": "True", "FailureTarget": "True"}),
        conditions=_conditions(status.conditions),
        created=moment(job.metadata.creation_timestamp),
    )


def _row(kind: str, owner: Replicated, *, updating: bool) -> OwnerRow:
    spec, status = owner.spec, owner.status
    progress = condition_of(status.conditions, "Progressing")
    return OwnerRow(
        id=owner.metadata.id,
        kind=kind,
        replicas=spec.replicas,
        updating=updating,
        deleting=owner.metadata.deletion_timestamp is not None,
        stuck=progress is not None and progress.status == "False",
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        available=status.available_replicas,
        gpus=int(asked_for(spec.template.spec, GPU)),
        queue=queue_of(spec.template.metadata.labels),
        problem=_told(status.conditions, {"ReplicaFailure": "True", "Progressing": "False"}),
        conditions=_conditions(status.conditions),
        created=moment(owner.metadata.creation_timestamp),
    )


def _told(conditions: tuple[Condition, ...], bad: dict[str, str]) -> str:
    """What the first condition says that is as it should not be."""
    wrong = (each for each in conditions if bad.get(each.type) == each.status)
    return next((each.message or each.reason for each in wrong), "")


def _conditions(conditions: tuple[Condition, ...]) -> tuple[ConditionRow, ...]:
    return tuple(
        ConditionRow(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            since=moment(each.last_transition_time),
        )
        for each in conditions
    )
