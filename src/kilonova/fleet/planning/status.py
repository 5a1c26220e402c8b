"""The statuses of deployments and releases, by what was decided and observed."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from kilonova.api.inference_engine import (
    ClusterDeploymentStatus,
    ClusterRelease,
    Deployment,
    DeploymentStatus,
    Release,
    ReleaseStatus,
)
from kilonova.api.inference_engine.release import Verdict
from kilonova.api.meta import Condition
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.fleet.documents import ObservedDeployment
from kilonova.fleet.planning.deployment import CellPlan, DeploymentPlan
from kilonova.fleet.planning.model import ObjectKey
from kilonova.fleet.planning.report import INSUFFICIENT_CAPACITY, count_moved
from kilonova.fleet.planning.selection import describe_missing
from kilonova.kube.status import with_condition

_SEEN_INTERVAL = timedelta(seconds=60)
"""How old the time of the last report may be in the status of a deployment."""


def build_deployment_status(plan: DeploymentPlan, now: datetime) -> DeploymentStatus:
    """The status of a deployment."""
    deployment, rollout = plan.deployment, plan.rollout
    clusters = tuple(
        status for each in plan.cells if (status := _build_cell(plan, each, now)) is not None
    )
    # Instances that were placed elsewhere do not count twice.
    replaced = {each.cell.name for each in plan.cells if each.cell.state == "gone"}
    counted = [each for each in clusters if each.cluster not in replaced]
    stuck = sum(each.cell.stuck for each in plan.cells if each.added >= 0)
    unallocatable = plan.unplaced + stuck
    conditions = deployment.status.conditions
    for each in (
        _build_available(plan, counted),
        *rollout.conditions,
        _build_allocated(plan, unallocatable),
    ):
        conditions = with_condition(conditions, each, now)
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        desired=plan.total,
        observed=sum(each.observed for each in counted),
        ready=sum(each.ready for each in counted),
        unallocatable=unallocatable,
        release=rollout.release,
        current_wave=rollout.current_wave,
        waves=rollout.waves,
        clusters=clusters,
        relocated=deployment.status.relocated + count_moved(plan),
        history=rollout.history,
        conditions=conditions,
    )


def _build_cell(
    plan: DeploymentPlan, cell: CellPlan, now: datetime
) -> ClusterDeploymentStatus | None:
    found, view = cell.cell.observed, cell.cell.view
    if not cell.desired and found is None and cell.cell.state in ("leaving", "held", "returning"):
        return None
    seen = view.status.last_seen
    previous = cell.cell.previous.last_seen
    if view.is_reachable and previous is not None and now - parse_time(previous) < _SEEN_INTERVAL:
        seen = previous
    return ClusterDeploymentStatus(
        cluster=cell.cell.name,
        desired=cell.desired,
        observed=found.replicas if found else 0,
        ready=found.ready if found else 0,
        unallocatable=found.unallocatable if found else 0,
        additional=found.additional_replicas if found else None,
        release=cell.release,
        observed_release=_find_observed_release(found),
        last_good_release=plan.rollout.last_good[cell.cell.name],
        reachable=view.is_reachable,
        last_seen=seen,
        reason=cell.reason,
    )


def _find_observed_release(found: ObservedDeployment | None) -> str:
    """The release that all instances run; empty if they run several."""
    if found is None:
        return ""
    names = {each.release for each in found.releases if each.replicas}
    return names.pop() if len(names) == 1 else ""


def _build_available(
    plan: DeploymentPlan, clusters: Sequence[ClusterDeploymentStatus]
) -> Condition:
    ready = sum(each.ready for each in clusters if each.reachable)
    assumed = sum(each.ready for each in clusters if not each.reachable)
    message = f"{ready} of {plan.total} instances are ready"
    if assumed:
        message += f", and {assumed} were when their clusters reported last"
    if ready >= plan.total:
        return Condition("Available", "True", "MinimumReplicasAvailable", message)
    known = "Unknown" if ready + assumed >= plan.total else "False"
    return Condition("Available", known, "MinimumReplicasUnavailable", message)


def _build_allocated(plan: DeploymentPlan, unallocatable: int) -> Condition:
    named = (each.cluster for each in plan.deployment.spec.placements)
    missing = describe_missing(named, {each.cell.name for each in plan.cells})
    hint = f"; spec.placements: {missing}" if missing else ""
    if unallocatable:
        message = f"no cluster has capacity for {unallocatable} of {plan.total} instances{hint}"
        return Condition("Allocated", "False", INSUFFICIENT_CAPACITY, message)
    if plan.delayed:
        message = f"{plan.delayed} instances wait until others are placed{hint}"
        return Condition("Allocated", "False", "Placing", message)
    return Condition("Allocated", "True", "Allocated")


def build_release_statuses(
    releases: Mapping[ObjectKey, Release],
    deployments: Sequence[Deployment],
    statuses: Mapping[ObjectKey, DeploymentStatus],
    observed: Mapping[str, Mapping[ObjectKey, ObservedDeployment]],
    now: datetime,
) -> dict[ObjectKey, ReleaseStatus]:
    """Where each release runs, and the verdict of the rollouts."""
    running = _find_running(observed)
    masked = {(each.metadata.namespace, name) for each in deployments for name in each.spec.mask}
    health: dict[ObjectKey, Verdict] = {}
    for (namespace, _), status in statuses.items():
        for each in status.history:
            key = (namespace, each.release)
            health[key] = _combine(health.get(key, "Unknown"), each.health)
    result: dict[ObjectKey, ReleaseStatus] = {}
    for key, release in releases.items():
        since = {each.cluster: each.since for each in release.status.clusters}
        clusters = tuple(
            replace(each, since=since.get(each.cluster) or format_rfc3339(now))
            for each in running.get(key, ())
        )
        result[key] = ReleaseStatus(
            observed_generation=release.metadata.generation,
            clusters=clusters,
            health=health.get(key, "Unknown"),
            masked=key in masked,
            conditions=release.status.conditions,
        )
    return result


def _find_running(
    observed: Mapping[str, Mapping[ObjectKey, ObservedDeployment]],
) -> dict[ObjectKey, list[ClusterRelease]]:
    running: dict[ObjectKey, list[ClusterRelease]] = {}
    for cluster in sorted(observed):
        counts: dict[ObjectKey, tuple[int, int]] = {}
        for (namespace, _), deployment in observed[cluster].items():
            for each in deployment.releases:
                if not each.replicas:
                    continue
                replicas, ready = counts.get((namespace, each.release), (0, 0))
                counts[namespace, each.release] = replicas + each.replicas, ready + each.ready
        for key, (replicas, ready) in counts.items():
            running.setdefault(key, []).append(ClusterRelease(cluster, replicas, ready))
    return running


def _combine(one: Verdict, other: Verdict) -> Verdict:
    """The worse of two verdicts."""
    if "Failing" in (one, other):
        return "Failing"
    return "Healthy" if "Healthy" in (one, other) else "Unknown"
