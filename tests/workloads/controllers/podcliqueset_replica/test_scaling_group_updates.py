"""Updates of group replicas: which are replaced, how many at a time, and what stays."""

from dataclasses import replace as change
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.grove.common import RollingUpdate
from kilonova.api.grove.podcliqueset import SetRollingUpdate, UpdateStrategy
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import GroupReplica
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.updates import (
    select_replicas_to_update,
)
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    SimulatedReplica,
    list_incarnations,
    start_replica,
    with_images,
    with_updating_replicas,
)

AVAILABLE = GroupReplica(
    index=0,
    cliques={},
    is_scheduled=True,
    is_available=True,
    is_breached=False,
    is_outdated=True,
    is_updated=False,
    was_available=True,
)
"""An outdated unit that does its work."""
UNAVAILABLE = change(AVAILABLE, is_available=False)
NEVER_AVAILABLE = change(UNAVAILABLE, was_available=False)
NEW = change(AVAILABLE, is_outdated=False, is_updated=True)
STARTING = change(NEW, is_available=False)
UNPLACED = change(STARTING, was_available=False)


@pytest.mark.parametrize(
    ("group_replicas", "needed", "max_unavailable", "chosen"),
    [
        pytest.param(
            [AVAILABLE, AVAILABLE, AVAILABLE], 1, 1, {0}, id="one at a time, lowest first"
        ),
        pytest.param(
            [AVAILABLE, AVAILABLE, AVAILABLE],
            3,
            1,
            {0},
            id="one may be unavailable though all are required",
        ),
        pytest.param(
            [AVAILABLE, AVAILABLE, AVAILABLE], 1, 2, {0, 1}, id="as many as may be unavailable"
        ),
        pytest.param(
            [AVAILABLE, AVAILABLE, AVAILABLE, AVAILABLE],
            3,
            3,
            {0, 1},
            id="at most one below the required number",
        ),
        pytest.param(
            [AVAILABLE, UNAVAILABLE, UNAVAILABLE], 1, 1, {1, 2}, id="all unavailable ones, at once"
        ),
        pytest.param(
            [AVAILABLE, AVAILABLE, NEVER_AVAILABLE],
            1,
            1,
            {0, 2},
            id="a replica never available is not waited for",
        ),
        pytest.param(
            [STARTING, AVAILABLE, AVAILABLE],
            1,
            1,
            set[int](),
            id="a starting one is waited for",
        ),
        pytest.param([NEW, AVAILABLE, AVAILABLE], 1, 1, {1}, id="the next when one is back"),
        pytest.param([NEW, UNPLACED, AVAILABLE], 1, 1, {2}, id="an unplaced one does not block"),
        pytest.param([AVAILABLE, UNPLACED], 2, 1, set[int](), id="too few are available"),
        pytest.param([NEW, NEW], 1, 1, set[int](), id="nothing is outdated"),
    ],
)
def test_group_replicas_to_update_are_selected(
    group_replicas: list[GroupReplica], needed: int, max_unavailable: int, chosen: set[int]
) -> None:
    numbered = [
        change(group_replica, index=index) for index, group_replica in enumerate(group_replicas)
    ]
    found = select_replicas_to_update(
        numbered,
        replicas=len(group_replicas),
        required_replicas=needed,
        max_unavailable=max_unavailable,
    )
    assert found == chosen


def test_group_replica_without_capacity_is_not_waited_for() -> None:
    group_replicas = [
        change(group_replica, index=index)
        for index, group_replica in enumerate([STARTING, AVAILABLE, AVAILABLE])
    ]
    found = select_replicas_to_update(
        group_replicas, replicas=3, required_replicas=1, max_unavailable=1, unplaced={0}
    )
    assert found == {1}


@pytest.mark.parametrize(
    ("group_replicas", "chosen"),
    [
        pytest.param([AVAILABLE, AVAILABLE, UNPLACED], set[int](), id="surge is waited for"),
        pytest.param([AVAILABLE, AVAILABLE, NEW], {0}, id="the surge replica makes up for one"),
        pytest.param([STARTING, AVAILABLE, NEW], set[int](), id="but for no second one"),
        pytest.param([NEW, AVAILABLE, NEW], {1}, id="until the first one is available"),
    ],
)
def test_surge_replicas_replace_those_deleted(
    group_replicas: list[GroupReplica], chosen: set[int]
) -> None:
    numbered = [
        change(group_replica, index=index) for index, group_replica in enumerate(group_replicas)
    ]
    found = select_replicas_to_update(numbered, replicas=2, required_replicas=1, max_unavailable=0)
    assert found == chosen


def build_set(**rest: Any) -> PodCliqueSet:
    options: RollingUpdate | None = rest.pop("how", None)
    return pod_clique_set(
        clique("a", 2, 1),
        clique("b"),
        clique("c", 2, 1),
        groups=[group("x", "b", "c", replicas=3, rolling_update=options)],
        **rest,
    )


def list_images(replica: SimulatedReplica) -> dict[str, str]:
    return {
        name: each.spec.pod_spec["containers"][0]["image"]
        for name, each in sorted(replica.cliques.items())
    }


def list_hashes(replica: SimulatedReplica) -> set[str | None]:
    return {each.metadata.labels.get(names.GENERATION_HASH) for each in replica.cliques.values()}


def test_replica_that_is_not_updating_is_unchanged() -> None:
    replica = start_replica(build_set())
    before = list_images(replica)
    replica.edit(with_images(replica.set_, a="new", b="new"))
    assert replica.converge() == []
    assert list_images(replica) == before


def test_replica_that_is_new_begins_with_the_newest_revision() -> None:
    replica = SimulatedReplica(build_set())
    replica.edit(with_images(replica.set_, a="new"))
    replica.converge()
    assert list_images(replica)["sys-0-a"] == "new"


def test_standalone_clique_gets_the_template_and_keeps_its_incarnation() -> None:
    replica = start_replica(build_set())
    replica.edit(with_updating_replicas(with_images(replica.set_, a="new"), 0))
    replica.converge()
    assert list_images(replica)["sys-0-a"] == "new"
    assert set(list_incarnations(replica).values()) == {0}
    assert len(list_hashes(replica)) == 1, "cliques that do not differ move on at once"


def test_group_replicas_are_replaced_one_after_the_other_each_as_a_whole() -> None:
    replica = start_replica(build_set())
    replica.edit(with_updating_replicas(with_images(replica.set_, b="new"), 0))
    for done in range(1, 4):
        replica.converge()
        restarted = {name for name, each in list_incarnations(replica).items() if each == 1}
        assert restarted == {f"sys-0-x-{index}-{name}" for index in range(done) for name in "bc"}
        replica.start_pods()
    replica.converge()
    assert set(list_incarnations(replica).values()) == {0, 1}, "none is replaced twice"
    assert len(list_hashes(replica)) == 1


def test_update_uses_max_unavailable_of_the_group() -> None:
    replica = start_replica(build_set(how=RollingUpdate(max_unavailable="67%")))
    replica.edit(with_updating_replicas(with_images(replica.set_, c="new"), 0))
    replica.converge()
    restarted = sorted(name for name, each in list_incarnations(replica).items() if each)
    assert restarted == ["sys-0-x-0-b", "sys-0-x-0-c", "sys-0-x-1-b", "sys-0-x-1-c"]


def test_coherent_update_replaces_all_that_is_outdated_at_once() -> None:
    coherent = UpdateStrategy(rolling_update=SetRollingUpdate(coherent=True))
    replica = start_replica(build_set(update_strategy=coherent))
    replica.edit(with_updating_replicas(with_images(replica.set_, a="new", b="new"), 0))
    replica.converge()
    assert set(list_incarnations(replica).values()) == {1}


def test_on_delete_set_changes_cliques_in_place() -> None:
    replica = start_replica(build_set(update_strategy=UpdateStrategy("OnDelete")))
    replica.edit(with_images(replica.set_, a="new", b="new", c="new"))
    replica.converge()
    assert set(list_images(replica).values()) == {"new"}
    assert set(list_incarnations(replica).values()) == {0}


def end_on_delete() -> SimulatedReplica:
    """A set that had left the pods of one clique in each unit outdated, and now rolls."""
    replica = start_replica(build_set(update_strategy=UpdateStrategy("OnDelete")))
    replica.edit(with_images(replica.set_, b="new"))
    replica.converge()
    rolling = PodCliqueSet(
        replica.set_.metadata, replace(replica.set_.spec, update_strategy=None), replica.set_.status
    )
    replica.edit(with_updating_replicas(rolling, 0))
    return replica


def test_od9_group_replicas_left_outdated_are_replaced_whole_when_on_delete_ends() -> None:
    replica = end_on_delete()
    for done in range(1, 4):
        replica.converge()
        restarted = {name for name, each in list_incarnations(replica).items() if each == 1}
        assert restarted == {f"sys-0-x-{index}-{name}" for index in range(done) for name in "bc"}
        replica.start_pods()
    replica.converge()
    assert set(list_incarnations(replica).values()) == {0, 1}, "none is replaced twice"


@pytest.mark.parametrize("first", ["b", "c"])
def test_od9_crash_within_a_group_replica_replaces_the_rest_once(
    first: str,
) -> None:
    replica = end_on_delete()
    plan = replica.plan()
    plan.patches = [each for each in plan.patches if each.name == f"sys-0-x-0-{first}"]
    replica.apply_plan(plan)
    replica.converge()
    found = list_incarnations(replica)
    assert [found[f"sys-0-x-0-{name}"] for name in "bc"] == [1, 1]


def test_recreated_clique_gets_the_incarnation_of_its_group_replica() -> None:
    replica = start_replica(build_set())
    replica.converge(cliques_to_restart=["sys-0-x-0-b", "sys-0-x-0-c"])
    del replica.cliques["sys-0-x-0-b"]
    replica.converge()
    assert list_incarnations(replica)["sys-0-x-0-b"] == 1


def test_crash_halfway_through_a_group_replica_replaces_the_rest_once() -> None:
    replica = start_replica(build_set())
    replica.edit(with_updating_replicas(with_images(replica.set_, b="new"), 0))
    plan = replica.plan()
    done = [each for each in plan.patches if each.name == "sys-0-x-0-b"]
    plan.patches = done
    replica.apply_plan(plan)
    replica.converge()
    assert list_incarnations(replica)["sys-0-x-0-b"] == 1
    assert list_incarnations(replica)["sys-0-x-0-c"] == 1


def test_second_edit_updates_to_the_last_revision() -> None:
    replica = start_replica(build_set())
    replica.edit(with_updating_replicas(with_images(replica.set_, b="bad"), 0))
    replica.converge()
    replica.edit(with_images(replica.set_, b="good"))
    replica.converge()
    found = list_images(replica)
    assert found["sys-0-x-0-b"] == "good"
    assert found["sys-0-x-1-b"] == found["sys-0-x-2-b"] == "busybox"
    replica.start_pods()
    replica.converge()
    assert list_images(replica)["sys-0-x-1-b"] == "good"


def test_group_that_grows_in_an_update_adds_group_replicas_of_the_new_template() -> None:
    replica = start_replica(build_set())
    replica.edit(with_updating_replicas(with_images(replica.set_, b="new"), 0))
    replica.converge()
    replica.scale("PodCliqueScalingGroup", "sys-0-x", 4)
    replica.converge()
    assert list_images(replica)["sys-0-x-3-b"] == "new"
    assert list_incarnations(replica)["sys-0-x-3-b"] == 0


def test_labels_and_annotations_of_an_older_template_are_removed() -> None:
    old = pod_clique_set(clique("a", labels={"x": "1", "y": "1"}, annotations={"note": "1"}))
    replica = start_replica(old)
    replica.edit(with_updating_replicas(pod_clique_set(clique("a", labels={"x": "2"})), 0))
    replica.converge()
    live: PodClique = replica.cliques["sys-0-a"]
    assert live.metadata.labels["x"] == "2"
    assert "y" not in live.metadata.labels
    assert "note" not in live.metadata.annotations


def test_field_removed_from_the_template_is_removed() -> None:
    selecting = {"containers": [{"name": "main", "image": "i"}], "nodeSelector": {"gpu": "yes"}}
    replica = start_replica(pod_clique_set(clique("a", pod_spec=selecting)))
    replica.edit(with_updating_replicas(pod_clique_set(clique("a")), 0))
    replica.converge()
    assert "nodeSelector" not in replica.cliques["sys-0-a"].spec.pod_spec


def test_surge_group_replica_is_created_first_and_deleted_at_the_end() -> None:
    replica = start_replica(build_set(how=RollingUpdate(max_unavailable=0, max_surge=1)))
    replica.edit(with_updating_replicas(with_images(replica.set_, b="new"), 0))
    replica.converge()
    assert list_images(replica)["sys-0-x-3-b"] == "new"
    assert set(list_incarnations(replica).values()) == {0}
    for done in range(1, 4):
        replica.start_pods()
        replica.converge()
        assert sum(each == 1 for each in list_incarnations(replica).values()) == 2 * done
        assert "sys-0-x-2" in replica.gangs
    replica.start_pods()
    replica.converge()
    assert not any(name.startswith("sys-0-x-3") for name in replica.cliques)
    assert "sys-0-x-2" not in replica.gangs
