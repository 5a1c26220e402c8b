"""The state of replicas, computed from their pods."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import (
    PodClique,
    PodCliqueSet,
    PodCliqueSetStatus,
    PodCliqueStatus,
    names,
)
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, PodSelection
from kilonova.api.grove.podcliqueset import SetUpdateProgress
from kilonova.api.grove.scaling_group import ScalingGroupUpdateProgress
from kilonova.api.meta import Condition
from kilonova.workloads.controllers.podcliqueset.replica_state import (
    ReplicaState,
    compute_replica_states,
)
from kilonova.workloads.resources import Pod, PodStatus
from tests.workloads.api_objects import (
    build_group_member,
    clique,
    get_current_revision,
    group,
    pod,
    pod_clique,
    pod_clique_set,
    scaling_group,
)

SET = pod_clique_set(
    clique("front", 2, 1),
    clique("hand"),
    groups=[group("team", "hand", replicas=2, min_available=1)],
)
HASH = get_current_revision(SET).hash
FRONT = pod_clique(SET, "front")
TEAM = scaling_group(SET, "team")
WORKERS = [pod_clique(SET, "hand", 0, build_group_member(SET, "team", each)) for each in range(2)]
READY = {each.metadata.name: [pod(each, ready=True)] for each in (FRONT, *WORKERS)}


def compute_state(
    cliques: Sequence[PodClique] = (FRONT, *WORKERS),
    groups: Sequence[Any] = (TEAM,),
    hash_: str = HASH,
    set_: PodCliqueSet = SET,
    **pods: Sequence[Pod],
) -> ReplicaState:
    """Replica 0; pods of cliques by their names in the set, all up where nothing is said."""
    full = {
        "front": FRONT.metadata.name,
        "hand0": WORKERS[0].metadata.name,
        "hand1": WORKERS[1].metadata.name,
    }
    known = {**READY, **{full[name]: list(each) for name, each in pods.items()}}
    states = compute_replica_states(
        set_, hash_, cliques, groups, lambda each: known[each.metadata.name]
    )
    return states[0]


OLD = {names.POD_TEMPLATE_HASH: "old"}
REPORTED = "2026-05-01T00:00:00Z"


def test_replica_with_enough_ready_pods_is_available_and_updated() -> None:
    state = compute_state()
    assert state == ReplicaState(
        0,
        present=True,
        available=True,
        updated=True,
        scheduled=True,
        updated_cliques=1,
        updated_groups=1,
    )


@pytest.mark.parametrize(
    "case",
    [
        {"front": []},
        {"front": [pod(FRONT)]},
        {"front": [pod(FRONT, ready=True, ending=True)]},
        {"front": [pod(FRONT, ready=True, annotations={names.INCARNATION: "7"})]},
        {"hand0": [], "hand1": []},
        {"cliques": WORKERS},
        {"cliques": [FRONT]},
        {"groups": []},
    ],
    ids=[
        "no pod",
        "pod not ready",
        "pod ending",
        "pod of an earlier incarnation",
        "no replica of the group",
        "clique missing",
        "group's cliques missing",
        "group missing",
    ],
)
def test_replica_below_min_available_is_not_available(case: dict[str, Any]) -> None:
    assert not compute_state(**case).available


@pytest.mark.parametrize(
    "case",
    [
        {"front": [pod(FRONT, ready=True), pod(FRONT, 1)]},
        {"hand1": []},
        {"front": [pod(FRONT, phase="Succeeded")]},
    ],
    ids=["more than it must have", "a replica of the group beyond the least", "work done"],
)
def test_replica_with_min_available_is_available(case: dict[str, Any]) -> None:
    assert compute_state(**case).available


@pytest.mark.parametrize(
    "case",
    [
        {"front": [pod(FRONT, ready=True, labels=OLD)]},
        {"hand1": [pod(WORKERS[1], ready=True, labels=OLD)]},
        {"hand1": [pod(WORKERS[1], labels=OLD, annotations={names.INCARNATION: "7"})]},
        {"hash_": "newer"},
    ],
    ids=["pod", "pod of a group", "pod of an earlier incarnation", "revision"],
)
def test_anything_of_an_older_revision_makes_a_replica_outdated(case: dict[str, Any]) -> None:
    state = compute_state(**case)
    assert (state.outdated, state.updated) == (True, False)


@pytest.mark.parametrize(
    "gone",
    [
        pod(FRONT, ready=True, labels=OLD, ending=True),
        pod(FRONT, phase="Succeeded", labels=OLD),
    ],
    ids=["ending", "done"],
)
def test_terminating_or_finished_old_pods_do_not_make_a_replica_outdated(gone: Pod) -> None:
    state = compute_state(front=[gone, pod(FRONT, 1, ready=True)])
    assert (state.outdated, state.updated) == (False, True)


def test_replica_with_missing_cliques_is_neither_updated_nor_outdated() -> None:
    state = compute_state(cliques=[FRONT])
    assert (state.outdated, state.updated) == (False, False)
    assert (state.updated_cliques, state.updated_groups) == (1, 0)


def with_selected_pods(*pods: str, began: str | None = None, ended: str | None = None) -> PodClique:
    """The front, with an update that has taken ready pods."""
    *completed, current = pods
    selected = PodSelection(current, tuple(completed))
    progress = PodCliqueUpdateProgress(
        HASH,
        "new",
        update_started_at=began,
        update_ended_at=ended,
        ready_pods_selected_to_update=selected,
    )
    return pod_clique(SET, "front", status=PodCliqueStatus(update_progress=progress))


def test_replica_has_lost_pods_until_the_replaced_ones_are_ready() -> None:
    cliques = [with_selected_pods("a", "b"), *WORKERS]
    state = compute_state(cliques=cliques, front=[pod(FRONT, ready=True), pod(FRONT, 1)])
    assert (state.available, state.updated, state.has_lost_pods) == (True, True, True)
    assert not compute_state(
        cliques=cliques, front=[pod(FRONT, i, ready=True) for i in range(2)]
    ).has_lost_pods
    assert not compute_state(cliques=[with_selected_pods("a"), *WORKERS]).has_lost_pods


@pytest.mark.parametrize(
    ("began", "ended", "lacking"),
    [("11:00", "11:30", False), ("11:00", None, True), ("12:00", "12:00", True)],
    ids=["one that is past", "one from before that goes on", "one of this update"],
)
def test_only_pods_taken_by_the_current_update_count_as_lost(
    began: str, ended: str | None, lacking: bool
) -> None:
    def at(time: str) -> str:
        return f"2026-05-01T{time}:00Z"

    progress = SetUpdateProgress(update_started_at=at("12:00"))
    set_ = PodCliqueSet(SET.metadata, SET.spec, PodCliqueSetStatus(update_progress=progress))
    front = with_selected_pods("a", "b", began=at(began), ended=at(ended) if ended else None)
    assert compute_state(cliques=[front, *WORKERS], set_=set_).has_lost_pods == lacking


def test_group_replica_counts_as_lost_only_if_it_was_available() -> None:
    was_up = pod_clique(
        SET,
        "hand",
        0,
        build_group_member(SET, "team", 1),
        status=PodCliqueStatus(healthy_incarnation=0),
    )
    assert compute_state(cliques=[FRONT, WORKERS[0], was_up], hand1=[]).has_lost_pods
    assert not compute_state(hand1=[]).has_lost_pods


@pytest.mark.parametrize(
    ("hash_", "before", "lacking"), [(HASH, 1, False), (HASH, 2, True), ("old", 1, True)]
)
def test_group_replicas_count_as_lost_only_below_the_number_before_the_update(
    hash_: str, before: int, lacking: bool
) -> None:
    well = PodCliqueStatus(healthy_incarnation=0)
    hand = pod_clique(SET, "hand", 0, build_group_member(SET, "team", 1), status=well)
    progress = ScalingGroupUpdateProgress(REPORTED, hash_, available_replicas_at_start=before)
    team = scaling_group(SET, "team")
    team.status = replace(team.status, update_progress=progress)
    found = compute_state(cliques=[FRONT, WORKERS[0], hand], groups=[team], hand1=[])
    assert found.has_lost_pods is lacking


def test_replica_was_available_if_all_required_cliques_were() -> None:
    def was_up(name: str, *group_replica: int) -> PodClique:
        status = PodCliqueStatus(healthy_incarnation=0)
        return pod_clique(
            SET,
            name,
            0,
            *(build_group_member(SET, "team", each) for each in group_replica),
            status=status,
        )

    assert compute_state(cliques=[was_up("front"), was_up("hand", 0), WORKERS[1]]).was_available
    assert not compute_state(cliques=[was_up("front"), *WORKERS]).was_available
    assert not compute_state(cliques=[FRONT, was_up("hand", 0), was_up("hand", 1)]).was_available


def test_clique_scaled_to_zero_counts_as_was_available() -> None:
    idle = pod_clique(SET, "front")
    idle.spec = replace(idle.spec, replicas=0)
    well = pod_clique(
        SET,
        "hand",
        0,
        build_group_member(SET, "team", 0),
        status=PodCliqueStatus(healthy_incarnation=0),
    )
    assert compute_state(cliques=[idle, well, WORKERS[1]], front=[]).was_available


def build_unplaced_pod(clique_: PodClique, index: int = 0, reason: str = "Unschedulable") -> Pod:
    found = pod(clique_, index)
    found.status = PodStatus(
        conditions=(Condition("PodScheduled", "False", reason, last_transition_time=REPORTED),)
    )
    return found


@pytest.mark.parametrize(
    ("case", "unplaced"),
    [
        ({"front": [build_unplaced_pod(FRONT)]}, True),
        ({"front": [build_unplaced_pod(FRONT, reason="SchedulingGated")]}, False),
        ({"front": [build_unplaced_pod(FRONT, reason="QueueLimitReached")]}, False),
        ({"front": [build_unplaced_pod(FRONT), pod(FRONT, 1, node="node", ending=True)]}, False),
        ({"front": [pod(FRONT)]}, False),
        ({"front": [pod(FRONT, ready=True), build_unplaced_pod(FRONT, 1)]}, False),
        (
            {"hand0": [build_unplaced_pod(WORKERS[0])], "hand1": [build_unplaced_pod(WORKERS[1])]},
            True,
        ),
        ({"hand1": [build_unplaced_pod(WORKERS[1])]}, False),
    ],
)
def test_replica_is_unplaced_if_its_required_pods_are_unschedulable(
    case: dict[str, Any], unplaced: bool
) -> None:
    later = datetime(2026, 5, 1, 0, 0, 30, tzinfo=UTC)
    assert compute_state(**case).unplaced_from == (later if unplaced else None)


def with_condition(type_: str) -> PodClique:
    return pod_clique(SET, "front", status=PodCliqueStatus(conditions=(Condition(type_, "True"),)))


def test_conditions_of_cliques_report_breach_and_failure() -> None:
    assert compute_state(cliques=[with_condition("MinAvailableBreached"), *WORKERS]).breached
    assert compute_state(cliques=[with_condition("Failed"), *WORKERS]).failed
    assert not compute_state(cliques=[with_condition("Complete"), *WORKERS]).complete


def test_complete_clique_is_available_without_pods() -> None:
    assert compute_state(cliques=[with_condition("Complete"), *WORKERS], front=[]).available


def test_only_replicas_with_objects_have_a_state() -> None:
    assert compute_replica_states(SET, HASH, [], [], lambda _: []) == {}
