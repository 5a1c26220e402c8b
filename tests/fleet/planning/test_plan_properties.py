"""What holds for every pass, whatever was decided and observed before."""

import random
from collections.abc import Iterator
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.fleet import AcceleratorCount, Cluster, ClusterHealth, ClusterSpec, ClusterStatus
from kilonova.api.inference_engine import (
    ClusterDeploymentStatus,
    Deployment,
    DeploymentRevision,
    DeploymentSpec,
    DeploymentStatus,
    Failover,
    Placement,
    SpreadConstraint,
)
from kilonova.api.times import format_rfc3339
from kilonova.fleet.documents import Observed, ObservedDeployment, ReleaseCount
from kilonova.fleet.planning import ClusterInput, FleetInput, FleetPlan, plan_fleet
from tests.fleet.planning.simulated_fleet import (
    NAMESPACE,
    RESOURCE,
    START,
    SimulatedFleet,
    metadata,
    release,
)
from tests.harness.campaigns import limit_examples

NAMES = ("a", "b", "c", "d")
RELEASES = ("v1", "v2", "v3")
DEPLOYMENTS = ("chat", "code")
AGENTS = 2
"""Accelerators of an instance."""
PASSES = settings(max_examples=limit_examples(200), deadline=None)
RUNS = settings(max_examples=limit_examples(40), deadline=None)
HEALTH: tuple[ClusterHealth, ...] = ("Healthy", "Healthy", "Healthy", "Suspect", "Lost")


@st.composite
def clusters(draw: st.DrawFn, name: str) -> Cluster:
    health = draw(st.sampled_from(HEALTH))
    since = START - timedelta(seconds=draw(st.sampled_from([50, 200, 400, 5000])))
    is_away = health != "Healthy"
    status = ClusterStatus(
        health=health,
        last_seen=format_rfc3339(since if is_away else START),
        suspect_since=format_rfc3339(since) if is_away else None,
        healthy_since=None if is_away else format_rfc3339(since),
        losses=draw(st.sampled_from([1, 3] if health == "Lost" else [0, 0, 1, 3])),
        sequence=1,
    )
    spec = ClusterSpec(
        region=draw(st.sampled_from(["eu", "us"])),
        weight=draw(st.sampled_from([0, 50, 100])),
        cordoned=draw(st.integers(0, 5)) == 0,
        evacuated=draw(st.integers(0, 5)) == 0,
    )
    return Cluster(metadata(name, ""), spec, status)


@st.composite
def observations(draw: st.DrawFn, name: str, desired: int, told: str) -> ObservedDeployment:
    """A report: what was told may be on its way, placed, ready, failing, or without a place."""
    replicas = draw(st.integers(0, 6)) if draw(st.booleans()) else desired
    placed = draw(st.integers(0, replicas))
    ready = draw(st.integers(0, placed))
    return ObservedDeployment(
        namespace=NAMESPACE,
        name=name,
        global_deployment=name,
        release=told,
        releases=(ReleaseCount(told, replicas, ready),) if replicas else (),
        replicas=replicas,
        updated=replicas,
        placed=placed,
        ready=ready,
        failing=draw(st.integers(0, placed - ready)),
        unallocatable=draw(st.integers(0, replicas - placed)),
        additional_replicas=draw(st.one_of(st.none(), st.integers(0, 8))),
    )


@st.composite
def fleets(draw: st.DrawFn) -> FleetInput:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    found = {name: draw(clusters(name)) for name in names}
    reports: dict[str, list[ObservedDeployment]] = {name: [] for name in names}
    deployments: list[Deployment] = []
    for name in DEPLOYMENTS:
        cells: list[ClusterDeploymentStatus] = []
        for cluster in names:
            count, told = draw(st.integers(0, 6)), draw(st.sampled_from(RELEASES))
            cells.append(ClusterDeploymentStatus(cluster, desired=count, release=told))
            if draw(st.integers(0, 9)):
                reports[cluster].append(draw(observations(name, count, told)))
        deployments.append(draw(global_deployments(name, names, tuple(cells))))
    inputs = [
        ClusterInput(
            found[name],
            Observed(
                cluster=name,
                sequence=2 if found[name].status.health == "Healthy" else 1,
                accelerators=(AcceleratorCount(RESOURCE, 100, draw(st.integers(0, 30))),),
                deployments=tuple(reports[name]),
            ),
        )
        for name in names
    ]
    return FleetInput(
        clusters=inputs,
        deployments=deployments,
        releases={(NAMESPACE, name): release(name, AGENTS) for name in RELEASES},
        now=START,
        observing_since=START - timedelta(seconds=draw(st.sampled_from([0, 600]))),
    )


@st.composite
def global_deployments(
    draw: st.DrawFn, name: str, names: tuple[str, ...], cells: tuple[ClusterDeploymentStatus, ...]
) -> Deployment:
    mask = tuple(each for each in RELEASES if draw(st.integers(0, 3)) == 0)
    placements = tuple(
        Placement(
            cluster=each,
            min=draw(st.integers(0, 1)),
            max=draw(st.one_of(st.none(), st.integers(1, 6))),
        )
        for each in names
        if draw(st.booleans())
    )
    spec = DeploymentSpec(
        release=draw(st.sampled_from(RELEASES)),
        replicas=draw(st.integers(0, 12)),
        placements=placements if draw(st.booleans()) else (),
        spread=SpreadConstraint() if draw(st.booleans()) else None,
        mask=mask,
        failover=Failover(max_concurrent=draw(st.integers(1, 4))),
    )
    history = tuple(
        DeploymentRevision(number, f"v{number}", format_rfc3339(START), "Healthy")
        for number in (3, 2, 1)
    )
    status = DeploymentStatus(
        desired=draw(st.integers(0, 12)), clusters=cells, history=history, release="v3"
    )
    return Deployment(metadata(name), spec, status)


def list_cells(
    fleet: FleetInput, plan: FleetPlan
) -> Iterator[tuple[Deployment, str, ClusterDeploymentStatus, ClusterDeploymentStatus]]:
    """For each deployment and cluster, what was decided before and now."""
    for deployment in fleet.deployments:
        key = (NAMESPACE, deployment.metadata.name)
        after = {each.cluster: each for each in plan.deployments[key].clusters}
        for old in deployment.status.clusters:
            new = after.get(old.cluster, ClusterDeploymentStatus(old.cluster))
            yield deployment, old.cluster, old, new


def report_of(fleet: FleetInput, cluster: str, name: str) -> ObservedDeployment | None:
    observed = next(
        each.observed for each in fleet.clusters if each.cluster.metadata.name == cluster
    )
    assert observed is not None
    return next((each for each in observed.deployments if each.name == name), None)


@PASSES
@given(fleets())
def test_no_ready_instance_that_is_asked_for_is_taken_away(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    for deployment in fleet.deployments:
        total = deployment.spec.replicas or 0
        before = after = 0
        for each, cluster, old, new in list_cells(fleet, plan):
            if each is not deployment:
                continue
            report = report_of(fleet, cluster, deployment.metadata.name)
            if report is not None and plan.clusters[cluster].health == "Healthy":
                before += min(report.ready, old.desired)
                after += min(report.ready, new.desired)
            elif plan.clusters[cluster].health != "Healthy" and total:
                assert new.desired == old.desired, "nothing is taken from what cannot be seen"
        reliable = sum(
            min(report.ready, old.desired)
            for each, cluster, old, _ in list_cells(fleet, plan)
            if each is deployment
            and plan.clusters[cluster].health == "Suspect"
            and not plan.clusters[cluster].losses
            and (report := report_of(fleet, cluster, deployment.metadata.name)) is not None
        )
        assert after >= before or after + reliable >= total


@PASSES
@given(fleets())
def test_numbers_stay_within_bounds(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    specs = {each.cluster.metadata.name: each.cluster.spec for each in fleet.clusters}
    for deployment, cluster, old, new in list_cells(fleet, plan):
        assert new.desired >= 0
        added = new.desired - old.desired
        if added <= 0:
            continue
        assert plan.clusters[cluster].health == "Healthy"
        assert not specs[cluster].cordoned
        assert not specs[cluster].evacuated
        for each in deployment.spec.placements:
            if each.cluster == cluster and each.max is not None:
                assert new.desired <= max(each.max, each.min)


@PASSES
@given(fleets())
def test_no_accelerator_is_promised_twice(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    minima = {
        (deployment.metadata.name, each.cluster)
        for deployment in fleet.deployments
        for each in deployment.spec.placements
        if each.min
    }
    for cluster in fleet.clusters:
        name = cluster.cluster.metadata.name
        assert cluster.observed is not None
        free = cluster.observed.accelerators[0].free
        promised = added = 0
        for deployment, where, old, new in list_cells(fleet, plan):
            if where != name:
                continue
            report = report_of(fleet, name, deployment.metadata.name)
            settled = 0 if report is None else report.placed + report.unallocatable
            promised += AGENTS * max(0, new.desired - settled)
            grown = max(0, new.desired - old.desired)
            added += grown
            if grown and (deployment.metadata.name, name) not in minima:
                assert report is not None
                assert report.additional_replicas is not None
                assert grown <= report.additional_replicas
        # A minimum is asked for whether or not it fits.
        if added and not any(where == name for _, where in minima):
            assert promised <= free


@PASSES
@given(fleets())
def test_masks_always_win(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    for deployment, _, _, new in list_cells(fleet, plan):
        mask = deployment.spec.mask
        if set(RELEASES) - set(mask) and new.desired:
            assert new.release not in mask


@PASSES
@given(fleets())
def test_frozen_fleet_changes_no_number(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    if plan.frozen:
        for _, _, old, new in list_cells(fleet, plan):
            assert new.desired == old.desired


@PASSES
@given(fleets())
def test_moves_are_limited(fleet: FleetInput) -> None:
    plan = plan_fleet(fleet)
    for deployment in fleet.deployments:
        total = deployment.spec.replicas or 0
        cells = [each for each in list_cells(fleet, plan) if each[0] is deployment]
        before = sum(old.desired for _, _, old, _ in cells)
        added = sum(max(0, new.desired - old.desired) for _, _, old, new in cells)
        minima = sum(each.min for each in deployment.spec.placements)
        new = max(0, total - before)
        assert added <= new + deployment.spec.failover.max_concurrent + minima


@PASSES
@given(fleets(), st.randoms(use_true_random=False))
def test_order_of_the_input_makes_no_difference(fleet: FleetInput, order: random.Random) -> None:
    shuffled_clusters, shuffled = list(fleet.clusters), list(fleet.deployments)
    order.shuffle(shuffled_clusters)
    order.shuffle(shuffled)
    other = FleetInput(
        clusters=shuffled_clusters,
        deployments=shuffled,
        releases=fleet.releases,
        now=fleet.now,
        observing_since=fleet.observing_since,
    )
    one, two = plan_fleet(fleet), plan_fleet(other)
    assert one.desired == two.desired
    assert one.deployments == two.deployments
    assert one.clusters == two.clusters


class Faults:
    """Random events in a fleet."""

    def __init__(self, fleet: SimulatedFleet, random_: random.Random) -> None:
        self._fleet = fleet
        self._random = random_

    def cause(self) -> None:
        fleet, choose = self._fleet, self._random.choice
        name = choose(list(fleet.members))
        member = fleet.members[name]
        match choose(
            ["silent", "down", "back", "capacity", "scale", "release", "cordon", "restart"]
        ):
            case "silent":
                member.is_silent = True
            case "down":
                member.is_down = True
            case "back":
                member.is_silent = member.is_down = False
            case "capacity":
                member.accelerators = choose([4, 10, 30])
            case "scale":
                fleet.deploy(replicas=choose([2, 5, 8]))
            case "release":
                fleet.deploy(release=choose(["v1", "v2"]))
            case "cordon":
                cordoned, evacuated = choose([(False, False), (True, False), (False, True)])
                fleet.configure(name, cordoned=cordoned, evacuated=evacuated)
            case "restart":
                fleet.restart_manager()
            case other:
                raise AssertionError(other)

    def end(self) -> None:
        for name, member in self._fleet.members.items():
            member.is_silent = member.is_down = False
            member.accelerators = 30
            self._fleet.configure(name, cordoned=False, evacuated=False)


@RUNS
@given(st.randoms(use_true_random=False))
def test_fleet_comes_to_rest_after_any_faults(random_: random.Random) -> None:
    fleet = SimulatedFleet({"a": 30, "b": 30, "c": 30}, {"a": "eu", "b": "us", "c": "us"})
    fleet.deploy(replicas=5, spread=random_.choice([None, SpreadConstraint()]))
    fleet.run(60)
    faults = Faults(fleet, random_)
    for _ in range(12):
        faults.cause()
        fleet.run(random_.choice([10, 60, 400]))
    faults.end()
    # The window of a member that was lost several times is long.
    for _ in range(8):
        fleet.run(200)
        fleet.now += timedelta(hours=1)
        fleet.restart_manager()
    fleet.run(600)
    total = fleet.deployments["chat"].spec.replicas
    assert sum(fleet.counts().values()) == total
    assert fleet.ready() == total
    settled, releases = fleet.counts(), [each.release for each in fleet.status().clusters]
    before = replace(fleet.status(), clusters=())
    for _ in range(60):
        fleet.step()
        assert fleet.counts() == settled
    assert [each.release for each in fleet.status().clusters] == releases
    assert replace(fleet.status(), clusters=()) == before
