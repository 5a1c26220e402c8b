"""One pass over the fleet: `plan_fleet`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.fleet import ClusterStatus
from kilonova.api.inference_engine import Deployment, Release
from kilonova.fleet.documents import ObservedDeployment
from kilonova.fleet.planning import health
from kilonova.fleet.planning.capacity import (
    Capacity,
    Footprint,
    count_unplaced,
    find_deployment,
    measure,
)
from kilonova.fleet.planning.cells import Cell, ClusterView, build_cell
from kilonova.fleet.planning.deployment import DeploymentPlan, plan_deployment
from kilonova.fleet.planning.desired import build_desired
from kilonova.fleet.planning.health import HealthTimes
from kilonova.fleet.planning.model import (
    Decision,
    FleetEvent,
    FleetInput,
    FleetPlan,
    ObjectKey,
)
from kilonova.fleet.planning.report import list_decisions, list_events
from kilonova.fleet.planning.selection import count_total, read_seconds
from kilonova.fleet.planning.status import build_deployment_status, build_release_statuses

_NO_DEPLOYMENTS: Mapping[ObjectKey, ObservedDeployment] = {}


def plan_fleet(given: FleetInput) -> FleetPlan:
    """Decide what every member is to run. The same input gives the same plan."""
    return _Pass(given).plan()


@dataclass(slots=True)
class _Pass:
    given: FleetInput

    def plan(self) -> FleetPlan:
        """The whole pass."""
        given = self.given
        calm_since = max(given.observing_since, given.calm_since or given.observing_since)
        times = HealthTimes(given.now, given.observing_since, calm_since, given.settings)
        statuses = {
            each.cluster.metadata.name: health.assess_reports(each, times)
            for each in given.clusters
        }
        frozen = health.is_frozen(
            [(each.cluster, statuses[each.cluster.metadata.name]) for each in given.clusters]
        )
        statuses = self._finish_health(statuses, times, frozen=frozen)
        observed = {
            each.cluster.metadata.name: find_deployment(each.observed.deployments)
            for each in given.clusters
            if each.observed is not None
        }
        views = [
            ClusterView(
                each.cluster, statuses[each.cluster.metadata.name], each.observed is not None
            )
            for each in sorted(given.clusters, key=lambda each: each.cluster.metadata.name)
        ]
        active = sorted(
            (each for each in given.deployments if each.metadata.deletion_timestamp is None),
            key=_key_of,
        )
        plans = self._plan_deployments(active, views, observed, times, frozen=frozen)
        events, decisions = self._report(statuses, plans)
        deployments = {
            _key_of(each.deployment): build_deployment_status(each, given.now) for each in plans
        }
        return FleetPlan(
            clusters=statuses,
            deployments=deployments,
            releases=build_release_statuses(
                given.releases, given.deployments, deployments, observed, given.now
            ),
            desired=build_desired(given.clusters, plans, given.releases),
            events=tuple(events),
            decisions=tuple(decisions),
            frozen=frozen,
            calm_since=given.now if frozen else calm_since,
        )

    def _finish_health(
        self, statuses: Mapping[str, ClusterStatus], times: HealthTimes, *, frozen: bool
    ) -> dict[str, ClusterStatus]:
        given = self.given
        after = _find_failover_times(given.deployments)
        finished: dict[str, ClusterStatus] = {}
        for each in given.clusters:
            name = each.cluster.metadata.name
            status = statuses[name]
            if not frozen:
                seconds = after.get(name, given.settings.failover_after)
                status = health.give_up(status, seconds, times)
            finished[name] = health.finish_status(each, status, frozen=frozen, now=given.now)
        return finished

    def _plan_deployments(
        self,
        deployments: Sequence[Deployment],
        views: Sequence[ClusterView],
        observed: Mapping[str, Mapping[ObjectKey, ObservedDeployment]],
        times: HealthTimes,
        *,
        frozen: bool,
    ) -> list[DeploymentPlan]:
        given = self.given
        by_namespace = _group_releases(given.releases)
        footprints = {
            namespace: {name: measure(each.spec) for name, each in releases.items()}
            for namespace, releases in by_namespace.items()
        }
        capacity = self._collect_capacity(views)
        cells: dict[ObjectKey, list[Cell]] = {}
        for each in deployments:
            key = _key_of(each)
            previous = {found.cluster: found for found in each.status.clusters}
            cells[key] = [
                build_cell(
                    each,
                    view,
                    observed.get(view.name, _NO_DEPLOYMENTS).get(key),
                    previous.get(view.name),
                    times,
                    frozen=frozen,
                )
                for view in views
            ]
            sizes = footprints.get(key[0], {})
            for cell in cells[key]:
                footprint = sizes.get(cell.previous.release, Footprint())
                capacity.add_booking(
                    cell.name, key, footprint, count_unplaced(cell.current, cell.observed)
                )
        clusters = [view.cluster for view in views]
        return [
            plan_deployment(
                each,
                cells[_key_of(each)],
                count_total(each.spec, clusters),
                by_namespace.get(each.metadata.namespace, {}).keys(),
                footprints.get(each.metadata.namespace, {}),
                capacity,
                given.now,
                given.settings,
                frozen=frozen,
            )
            for each in deployments
        ]

    def _collect_capacity(self, views: Sequence[ClusterView]) -> Capacity:
        capacity = Capacity()
        reachable = {view.name for view in views if view.is_reachable}
        for each in self.given.clusters:
            if each.observed is not None and each.cluster.metadata.name in reachable:
                capacity.add_cluster(each.cluster.metadata.name, each.observed)
        return capacity

    def _report(
        self, statuses: Mapping[str, ClusterStatus], plans: Sequence[DeploymentPlan]
    ) -> tuple[list[FleetEvent], list[Decision]]:
        events: list[FleetEvent] = []
        for each in self.given.clusters:
            name = each.cluster.metadata.name
            old, new = each.cluster.status, statuses[name]
            events += health.list_health_events(name, old, new, self.given.now)
        decisions = [Decision(each.message, each.reason, cluster=each.name) for each in events]
        for plan in plans:
            events += list_events(plan)
            decisions += list_decisions(plan)
        return events, decisions


def _key_of(deployment: Deployment) -> ObjectKey:
    return deployment.metadata.namespace, deployment.metadata.name


def _find_failover_times(deployments: Sequence[Deployment]) -> dict[str, float]:
    """By cluster, the least time after which a deployment's instances are placed elsewhere."""
    times: dict[str, float] = {}
    for each in deployments:
        after = read_seconds(each.spec.failover.after)
        for found in each.status.clusters:
            if found.desired:
                times[found.cluster] = min(after, times.get(found.cluster, after))
    return times


def _group_releases(
    releases: Mapping[ObjectKey, Release],
) -> dict[str, dict[str, Release]]:
    grouped: dict[str, dict[str, Release]] = {}
    for (namespace, name), release in releases.items():
        grouped.setdefault(namespace, {})[name] = release
    return grouped
