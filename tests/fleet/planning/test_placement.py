"""Where instances are placed: shares, bounds, failure domains, capacity."""

from msgspec.structs import replace

from kilonova.api.inference_engine import Deployment, Placement, Release, SpreadConstraint
from kilonova.api.inference_engine.global_deployment import ClusterSelector
from tests.fleet.planning.simulated_fleet import SimulatedFleet, release


def test_instances_are_placed_where_they_fit() -> None:
    fleet = SimulatedFleet({"a": 4, "b": 100, "c": 1})
    fleet.deploy(replicas=8)
    fleet.run(60)
    assert fleet.counts() == {"a": 1, "b": 7} or fleet.counts() == {"a": 2, "b": 6}
    assert fleet.cell("c").reason == "no further instance fits: insufficient accelerators"
    assert fleet.ready() == 8


def test_shares_follow_weight_and_cost() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100})
    fleet.configure("b", cost=3.0)
    fleet.deploy(replicas=8)
    fleet.run(60)
    assert fleet.counts() == {"a": 6, "b": 2}


def test_bounds_of_placements_hold() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100, "c": 100}, {"a": "eu", "b": "us", "c": "us"})
    fleet.deploy(
        replicas=20,
        placements=(
            Placement(cluster="a", max=2),
            Placement(cluster_selector=ClusterSelector(regions=("us",)), min=3, weight=2),
        ),
    )
    fleet.run(60)
    assert fleet.counts() == {"a": 2, "b": 9, "c": 9}
    assert fleet.cell("a").reason == "at its maximum of 2"


def test_minima_alone_are_a_total() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100})
    fleet.deploy(replicas=None, placements=(Placement(cluster="b", min=2),))
    fleet.run(60)
    assert fleet.counts() == {"b": 2}
    assert fleet.status().desired == 2


def test_instances_are_spread_over_regions() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100, "c": 100}, {"a": "eu", "b": "us", "c": "us"})
    fleet.deploy(replicas=6, spread=SpreadConstraint(by="region"))
    fleet.run(60)
    assert fleet.cell("a").desired == 3


def test_skew_is_repaired_when_a_region_gets_capacity() -> None:
    fleet = SimulatedFleet({"a": 2, "b": 100}, {"a": "eu", "b": "us"})
    fleet.deploy(replicas=6, spread=SpreadConstraint(by="region"))
    fleet.run(60)
    assert fleet.counts() == {"a": 1, "b": 5}
    fleet.members["a"].accelerators = 100
    for _ in range(60):
        fleet.step()
        assert fleet.ready() >= 6
    assert fleet.counts() in ({"a": 3, "b": 3}, {"a": 2, "b": 4}, {"a": 4, "b": 2})
    settled = fleet.counts()
    fleet.run(600)
    assert fleet.counts() == settled


def test_two_deployments_do_not_get_the_same_capacity() -> None:
    fleet = SimulatedFleet({"a": 8, "b": 6})
    fleet.deploy("chat", replicas=4)
    fleet.deploy("code", replicas=4)
    for _ in range(40):
        fleet.step()
        told = {
            name: sum(each.replicas * 2 for each in desired)
            for name, desired in fleet.desired.items()
        }
        assert told["a"] <= 8
        assert told["b"] <= 6
    assert fleet.ready("chat") + fleet.ready("code") == 7
    short = [name for name in ("chat", "code") if fleet.status(name).unallocatable]
    assert len(short) == 1
    assert fleet.condition("Allocated", short[0]) == ("False", "InsufficientCapacity")


def test_capacity_of_builds_of_unknown_size_is_not_shared() -> None:
    fleet = SimulatedFleet({"a": 8, "b": 8})
    spec = release("v1").spec
    only_build = replace(spec, target_agents=None, accelerator=None, build="b1")
    fleet.releases["v1"] = Release(fleet.releases["v1"].metadata, only_build)
    fleet.deploy("chat", replicas=8)
    fleet.deploy("code", replicas=8)
    for _ in range(40):
        fleet.step()
        for desired in fleet.desired.values():
            assert sum(each.replicas for each in desired) <= 8
    assert fleet.ready("chat") + fleet.ready("code") == 16


def test_probe_asks_every_cluster_before_the_first_instance_is_placed() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100})
    fleet.run(10)
    fleet.deploy(replicas=2)
    plan = fleet.pass_once()
    assert [each.replicas for each in (*plan.desired["a"], *plan.desired["b"])] == [0, 0]
    fleet.members["b"].is_silent = True
    fleet.step()
    assert fleet.counts() == {}, "b has not answered"
    fleet.run(60)
    assert fleet.counts() == {"a": 2}


def test_missing_capacity_is_reported_once_and_used_when_it_comes() -> None:
    fleet = SimulatedFleet({"a": 4})
    fleet.deploy(replicas=4)
    fleet.run(60)
    assert fleet.counts() == {"a": 2}
    assert fleet.status().unallocatable == 2
    assert fleet.reasons().count("InsufficientCapacity") == 1
    fleet.members["a"].accelerators = 100
    fleet.run(60)
    assert fleet.counts() == {"a": 4}


def test_placement_in_a_cluster_that_does_not_exist_is_named() -> None:
    fleet = SimulatedFleet({"a": 100})
    fleet.deploy(replicas=2, placements=(Placement(cluster="mars", min=1),))
    fleet.run(60)
    allocated = next(each for each in fleet.status().conditions if each.type == "Allocated")
    assert allocated.message == (
        "no cluster has capacity for 2 of 2 instances; spec.placements: cluster mars does not exist"
    )


def test_reports_of_an_unknown_deployment_are_adopted() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100})
    fleet.deploy(replicas=4)
    fleet.run(60)
    before = fleet.counts()
    # The hub is new, and so is its object: only the members know what runs.
    deployment = fleet.deployments.pop("chat")
    fleet.deployments["chat"] = Deployment(deployment.metadata, deployment.spec)
    fleet.run(60)
    assert fleet.counts() == before
    assert fleet.ready() == 4


def test_deployment_without_replicas_leaves_all_clusters() -> None:
    fleet = SimulatedFleet({"a": 100, "b": 100})
    fleet.deploy(replicas=4)
    fleet.run(60)
    fleet.deploy(replicas=0)
    fleet.run(30)
    assert fleet.counts() == {}
    assert fleet.ready() == 0
