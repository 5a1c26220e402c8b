"""The status of a deployment. Pure."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineDeploymentStatus, Revision, names
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.instances.controllers.deployment.observed import (
    CapacityEstimate,
    ObservedDeployment,
)
from kilonova.instances.controllers.deployment.progress import FAILURE, Progress, build_conditions
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    sort_newest_first,
)
from kilonova.kube.status import with_condition, without_condition

_ESTIMATE_REFRESH = timedelta(minutes=1)
"""An estimate that stays the same is written again after this time, with its new time."""


def build_status(
    observed: ObservedDeployment,
    progress: Progress,
    estimate: CapacityEstimate | None,
    now: datetime,
) -> InferenceEngineDeploymentStatus:
    """The status."""
    deployment, states = observed.deployment, progress.states
    revision = progress.revision
    # A status is written after all else has been.
    conditions = without_condition(deployment.status.conditions, FAILURE)
    for each in build_conditions(progress, now):
        conditions = with_condition(conditions, each, now)
    status = replace(
        deployment.status,
        observed_generation=deployment.metadata.generation,
        replicas=len(states),
        ready_replicas=sum(1 for each in states if each.is_ready),
        updated_replicas=len(progress.updated),
        unallocatable=sum(1 for each in states if each.is_unallocatable),
        selector=f"{names.DEPLOYMENT}={deployment.metadata.name}",
        current_revision=None if revision is None else revision.number,
        history=_build_history(observed, revision, now),
        conditions=conditions,
    )
    return _with_estimate(status, estimate)


def _with_estimate(
    status: InferenceEngineDeploymentStatus, estimate: CapacityEstimate | None
) -> InferenceEngineDeploymentStatus:
    if estimate is None:
        return status
    known = status.additional_replicas, status.additional_replicas_message
    if known == (estimate.additional, estimate.message) and status.observed_time:
        age = estimate.time - parse_time(status.observed_time)
        if timedelta() <= age < _ESTIMATE_REFRESH:
            return status
    return replace(
        status,
        additional_replicas=estimate.additional,
        additional_replicas_message=estimate.message,
        observed_time=format_rfc3339(estimate.time),
    )


def _build_history(
    observed: ObservedDeployment, current: DeploymentRevision | None, now: datetime
) -> tuple[Revision, ...]:
    deployment = observed.deployment
    since = {(each.revision, each.template_hash): each.since for each in deployment.status.history}
    known = {each.name: each for each in observed.revisions}
    if current is not None:
        known[current.name] = current
    newest = sort_newest_first(known.values())[: deployment.spec.revision_history_limit + 1]
    return tuple(
        Revision(
            each.number,
            each.release,
            each.hash,
            since.get((each.number, each.hash)) or format_rfc3339(now),
        )
        for each in newest
    )
