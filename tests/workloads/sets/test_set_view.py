"""How replicas of a set are seen, from their pods."""

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
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, SelectedPods
from kilonova.api.grove.podcliqueset import SetUpdateProgress
from kilonova.api.grove.scalinggroup import ScalingGroupUpdateProgress
from kilonova.api.meta import Condition
from kilonova.workloads.resources import Pod, PodStatus
from kilonova.workloads.sets.view import ReplicaView, view_replicas
from tests.workloads.builders import (
    clique,
    group,
    member,
    pod,
    pod_clique,
    pod_clique_set,
    revision_of,
    scaling_group,
)

SET = pod_clique_set(
    clique("front", 2, 1),
    clique("hand"),
    groups=[group("team", "hand", replicas=2, min_available=1)],
)
HASH = revision_of(SET).hash
FRONT = pod_clique(SET, "front")
TEAM = scaling_group(SET, "team")
HANDS = [pod_clique(SET, "hand", 0, member(SET, "team", each)) for each in range(2)]
UP = {each.metadata.name: [pod(each, ready=True)] for each in (FRONT, *HANDS)}


def seen(
    cliques: Sequence[PodClique] = (FRONT, *HANDS),
    groups: Sequence[Any] = (TEAM,),
    hash_: str = HASH,
    set_: PodCliqueSet = SET,
    **pods: Sequence[Pod],
) -> ReplicaView:
    """Replica 0; pods of cliques by their names in the set, all up where nothing is said."""
    full = {
        "front": FRONT.metadata.name,
        "hand0": HANDS[0].metadata.name,
        "hand1": HANDS[1].metadata.name,
    }
    known = {**UP, **{full[name]: list(each) for name, each in pods.items()}}
    views = view_replicas(set_, hash_, cliques, groups, lambda each: known[each.metadata.name])
    return views[0]


OLD = {names.POD_TEMPLATE_HASH: "old"}
SAID = "2026-05-01T00:00:00Z"


def test_replica_with_enough_pods_up_is_available_and_updated() -> None:
    view = seen()
    assert view == ReplicaView(
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
        {"cliques": HANDS},
        {"cliques": [FRONT]},
        {"groups": []},
    ],
    ids=[
        "no pod",
        "pod not ready",
        "pod ending",
        "pod from before a start anew",
        "no replica of the group",
        "clique missing",
        "group's cliques missing",
        "group missing",
    ],
)
def test_replica_that_lacks_what_it_must_have_is_not_available(case: dict[str, Any]) -> None:
    assert not seen(**case).available


@pytest.mark.parametrize(
    "case",
    [
        {"front": [pod(FRONT, ready=True), pod(FRONT, 1)]},
        {"hand1": []},
        {"front": [pod(FRONT, phase="Succeeded")]},
    ],
    ids=["more than it must have", "a replica of the group beyond the least", "work done"],
)
def test_replica_that_has_what_it_must_have_is_available(case: dict[str, Any]) -> None:
    assert seen(**case).available


@pytest.mark.parametrize(
    "case",
    [
        {"front": [pod(FRONT, ready=True, labels=OLD)]},
        {"hand1": [pod(HANDS[1], ready=True, labels=OLD)]},
        {"hash_": "newer"},
    ],
    ids=["pod", "pod of a group", "revision"],
)
def test_anything_of_an_older_revision_makes_a_replica_outdated(case: dict[str, Any]) -> None:
    view = seen(**case)
    assert (view.outdated, view.updated) == (True, False)


@pytest.mark.parametrize(
    "gone",
    [
        pod(FRONT, ready=True, labels=OLD, ending=True),
        pod(FRONT, phase="Succeeded", labels=OLD),
    ],
    ids=["ending", "done"],
)
def test_old_pods_that_go_or_are_done_do_not_make_a_replica_outdated(gone: Pod) -> None:
    view = seen(front=[gone, pod(FRONT, 1, ready=True)])
    assert (view.outdated, view.updated) == (False, True)


def test_replica_whose_cliques_are_not_all_there_is_neither_updated_nor_outdated() -> None:
    view = seen(cliques=[FRONT])
    assert (view.outdated, view.updated) == (False, False)
    assert (view.updated_cliques, view.updated_groups) == (1, 0)


def selecting(*pods: str, began: str | None = None, ended: str | None = None) -> PodClique:
    """The front, with an update that has taken ready pods."""
    *completed, current = pods
    selected = SelectedPods(current, tuple(completed))
    progress = PodCliqueUpdateProgress(
        HASH,
        "new",
        update_started_at=began,
        update_ended_at=ended,
        ready_pods_selected_to_update=selected,
    )
    return pod_clique(SET, "front", status=PodCliqueStatus(update_progress=progress))


def test_replica_lacks_pods_until_as_many_are_ready_as_its_update_took() -> None:
    cliques = [selecting("a", "b"), *HANDS]
    view = seen(cliques=cliques, front=[pod(FRONT, ready=True), pod(FRONT, 1)])
    assert (view.available, view.updated, view.lacking) == (True, True, True)
    assert not seen(cliques=cliques, front=[pod(FRONT, i, ready=True) for i in range(2)]).lacking
    assert not seen(cliques=[selecting("a"), *HANDS]).lacking


@pytest.mark.parametrize(
    ("began", "ended", "lacking"),
    [("11:00", "11:30", False), ("11:00", None, True), ("12:00", "12:00", True)],
    ids=["one that is past", "one from before that goes on", "one of this update"],
)
def test_replica_lacks_only_what_an_update_of_now_took(
    began: str, ended: str | None, lacking: bool
) -> None:
    def at(time: str) -> str:
        return f"2026-05-01T{time}:00Z"

    progress = SetUpdateProgress(update_started_at=at("12:00"))
    set_ = PodCliqueSet(SET.metadata, SET.spec, PodCliqueSetStatus(update_progress=progress))
    front = selecting("a", "b", began=at(began), ended=at(ended) if ended else None)
    assert seen(cliques=[front, *HANDS], set_=set_).lacking == lacking


def test_replica_lacks_a_unit_of_its_group_only_if_that_was_up_before() -> None:
    was_up = pod_clique(
        SET, "hand", 0, member(SET, "team", 1), status=PodCliqueStatus(healthy_incarnation=0)
    )
    assert seen(cliques=[FRONT, HANDS[0], was_up], hand1=[]).lacking
    assert not seen(hand1=[]).lacking


@pytest.mark.parametrize(
    ("hash_", "before", "lacking"), [(HASH, 1, False), (HASH, 2, True), ("old", 1, True)]
)
def test_replica_lacks_units_only_if_there_were_more_before_the_update(
    hash_: str, before: int, lacking: bool
) -> None:
    well = PodCliqueStatus(healthy_incarnation=0)
    hand = pod_clique(SET, "hand", 0, member(SET, "team", 1), status=well)
    progress = ScalingGroupUpdateProgress(SAID, hash_, available_replicas_at_start=before)
    team = scaling_group(SET, "team")
    team.status = replace(team.status, update_progress=progress)
    found = seen(cliques=[FRONT, HANDS[0], hand], groups=[team], hand1=[])
    assert found.lacking is lacking


def test_replica_was_up_if_all_that_it_must_have_was() -> None:
    def was_up(name: str, *unit: int) -> PodClique:
        status = PodCliqueStatus(healthy_incarnation=0)
        return pod_clique(
            SET, name, 0, *(member(SET, "team", each) for each in unit), status=status
        )

    assert seen(cliques=[was_up("front"), was_up("hand", 0), HANDS[1]]).was_up
    assert not seen(cliques=[was_up("front"), *HANDS]).was_up
    assert not seen(cliques=[FRONT, was_up("hand", 0), was_up("hand", 1)]).was_up


def test_clique_scaled_to_nothing_needs_no_nodes_to_have_been_up() -> None:
    idle = pod_clique(SET, "front")
    idle.spec = replace(idle.spec, replicas=0)
    well = pod_clique(
        SET, "hand", 0, member(SET, "team", 0), status=PodCliqueStatus(healthy_incarnation=0)
    )
    assert seen(cliques=[idle, well, HANDS[1]], front=[]).was_up


def unplaced(clique_: PodClique, index: int = 0, reason: str = "Unschedulable") -> Pod:
    found = pod(clique_, index)
    found.status = PodStatus(
        conditions=(Condition("PodScheduled", "False", reason, last_transition_time=SAID),)
    )
    return found


@pytest.mark.parametrize(
    ("case", "homeless"),
    [
        ({"front": [unplaced(FRONT)]}, True),
        ({"front": [unplaced(FRONT, reason="SchedulingGated")]}, False),
        ({"front": [unplaced(FRONT, reason="QueueLimit")]}, False),
        ({"front": [unplaced(FRONT), pod(FRONT, 1, node="node", ending=True)]}, False),
        ({"front": [pod(FRONT)]}, False),
        ({"front": [pod(FRONT, ready=True), unplaced(FRONT, 1)]}, False),
        ({"hand0": [unplaced(HANDS[0])], "hand1": [unplaced(HANDS[1])]}, True),
        ({"hand1": [unplaced(HANDS[1])]}, False),
    ],
)
def test_replica_has_no_room_if_that_is_said_of_what_it_must_have(
    case: dict[str, Any], homeless: bool
) -> None:
    later = datetime(2026, 5, 1, 0, 0, 30, tzinfo=UTC)
    assert seen(**case).homeless_from == (later if homeless else None)


def conditioned(type_: str) -> PodClique:
    return pod_clique(SET, "front", status=PodCliqueStatus(conditions=(Condition(type_, "True"),)))


def test_conditions_of_cliques_tell_of_breach_and_failure() -> None:
    assert seen(cliques=[conditioned("MinAvailableBreached"), *HANDS]).breached
    assert seen(cliques=[conditioned("Failed"), *HANDS]).failed
    assert not seen(cliques=[conditioned("Complete"), *HANDS]).complete


def test_clique_that_is_complete_is_available_though_its_pods_are_cleared_away() -> None:
    assert seen(cliques=[conditioned("Complete"), *HANDS], front=[]).available


def test_only_replicas_of_which_something_is_there_are_seen() -> None:
    assert view_replicas(SET, HASH, [], [], lambda _: []) == {}
