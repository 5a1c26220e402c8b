"""What to write for a deployment. Pure.

The revision is written before any instance is made from it. Changes of the template wait while the
deployment is paused, or cannot be rolled out; the number of instances is kept even then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.inference_engine import InferenceEngineDeploymentStatus, names
from kilonova.instances.controllers.deployment.instance_state import (
    InstanceState,
    build_instance_state,
)
from kilonova.instances.controllers.deployment.observed import ObservedDeployment
from kilonova.instances.controllers.deployment.progress import (
    Progress,
    get_deadline_delay,
    list_condition_events,
)
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    resolve_current_revision,
    select_expired_revisions,
)
from kilonova.instances.controllers.deployment.rollout import (
    RolloutBounds,
    RolloutStep,
    plan_recreate,
    plan_rolling_replace,
    plan_scaling,
    resolve_bounds,
)
from kilonova.instances.controllers.deployment.status import build_status
from kilonova.instances.controllers.deployment.template import (
    DeploymentProblem,
    DeploymentTemplate,
    resolve_template,
)

INVALID_STRATEGY = "InvalidStrategy"
_NO_REVISION = ""
_BLOCKED_RETRY_SECONDS = 15.0
"""Capacity that only an updated instance in the place of another one would need is not watched."""


@dataclass(frozen=True, slots=True)
class DeploymentEvent:
    """An event to record."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What to write, in this order."""

    status: InferenceEngineDeploymentStatus
    record: DeploymentRevision | None = None
    """A revision that is not recorded yet, or has another number now."""
    delete: tuple[InstanceState, ...] = ()
    create: int = 0
    """How many instances to make from `revision`."""
    revision: DeploymentRevision | None = None
    forget: tuple[DeploymentRevision, ...] = ()
    events: tuple[DeploymentEvent, ...] = ()
    requeue_after: float | None = None


def desire(observed: ObservedDeployment, now: datetime) -> DeploymentPlan:
    """What to write for a deployment that is not being deleted."""
    deployment = observed.deployment
    spec = deployment.spec
    template = resolve_template(deployment, observed.release)
    problem = template if isinstance(template, DeploymentProblem) else None
    try:
        bounds = resolve_bounds(spec.strategy, spec.replicas)
    except ValueError as error:
        bounds = RolloutBounds(spec.replicas, 0, 0)
        problem = problem or DeploymentProblem(
            INVALID_STRATEGY, f"spec.strategy: {error}: write a number, or a percentage like 25%"
        )
    is_frozen = spec.paused or problem is not None
    if is_frozen or not isinstance(template, DeploymentTemplate):
        revision = observed.newest_revision
    else:
        revision = resolve_current_revision(deployment, template, observed.revisions)
    states = _build_states(observed, revision, now)
    step = _plan_step(observed, revision, states, bounds, is_frozen)
    estimate = None if revision is None else observed.estimate_capacity(revision.template.spec, ())
    progress = Progress(deployment, states, bounds, revision, step.kept, problem)
    status = build_status(observed, progress, estimate, now)
    record = None if revision is None or revision in observed.revisions else revision
    conditions = list_condition_events(deployment.status, status)
    return DeploymentPlan(
        status,
        record,
        step.delete,
        step.create,
        revision,
        _select_expired(observed, revision),
        (
            *_list_rollout_events(observed, record),
            *(DeploymentEvent(*each) for each in conditions),
        ),
        _least(
            get_deadline_delay(progress, status.conditions, now),
            _get_availability_delay(states, spec.strategy.min_ready_seconds, now),
            _BLOCKED_RETRY_SECONDS if step.kept else None,
        ),
    )


def _build_states(
    observed: ObservedDeployment, revision: DeploymentRevision | None, now: datetime
) -> list[InstanceState]:
    min_ready = timedelta(seconds=observed.deployment.spec.strategy.min_ready_seconds)
    current_hash = _NO_REVISION if revision is None else revision.hash
    return [build_instance_state(each, current_hash, min_ready, now) for each in observed.present]


def _plan_step(
    observed: ObservedDeployment,
    revision: DeploymentRevision | None,
    states: Sequence[InstanceState],
    bounds: RolloutBounds,
    is_frozen: bool,
) -> RolloutStep:
    if revision is None:
        return RolloutStep(delete=plan_scaling(states, bounds.replicas).delete)
    if is_frozen:
        return plan_scaling(states, bounds.replicas)

    def find_obstacle(without: Sequence[InstanceState]) -> str:
        estimate = observed.estimate_capacity(
            revision.template.spec, [each.instance for each in without]
        )
        return "" if estimate is None or estimate.additional else estimate.message

    if observed.deployment.spec.strategy.type == "Recreate":
        outdated_terminating = sum(
            1
            for each in observed.terminating
            if each.metadata.labels.get(names.TEMPLATE_HASH) != revision.hash
        )
        return plan_recreate(states, outdated_terminating, bounds.replicas, find_obstacle)
    return plan_rolling_replace(states, bounds, find_obstacle)


def _select_expired(
    observed: ObservedDeployment, revision: DeploymentRevision | None
) -> tuple[DeploymentRevision, ...]:
    if revision is None:
        return ()
    others = [each for each in observed.revisions if each.name != revision.name]
    used = {each.metadata.labels.get(names.TEMPLATE_HASH, "") for each in observed.instances}
    limit = observed.deployment.spec.revision_history_limit
    return tuple(select_expired_revisions([revision, *others], used, limit))


def _list_rollout_events(
    observed: ObservedDeployment, record: DeploymentRevision | None
) -> list[DeploymentEvent]:
    """That the deployment went back to a revision that it had before."""
    known = {each.name: each.number for each in observed.revisions}
    if record is None or record.name not in known:
        return []
    message = f"Rolled back to revision {known[record.name]}, which is revision {record.number} now"
    release = f" ({record.title})" if record.release else ""
    return [DeploymentEvent("DeploymentRollback", message + release)]


def _get_availability_delay(
    states: Sequence[InstanceState], min_ready_seconds: int, now: datetime
) -> float | None:
    """Seconds until the next ready instance is available."""
    waits = [
        min_ready_seconds - (now - each.ready_since).total_seconds()
        for each in states
        if each.ready_since is not None and not each.is_available
    ]
    return min(waits, default=None)


def _least(*delays: float | None) -> float | None:
    return min((each for each in delays if each is not None), default=None)
