"""How a clique that stands alone replaces its pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueStatus, names
from kilonova.api.grove.parts import RollingUpdate
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, SelectedPods
from kilonova.api.meta import Condition
from kilonova.workloads.cliques.roster import index_in, is_current
from kilonova.workloads.pods import is_ending, is_ready
from kilonova.workloads.resources import Pod
from tests.workloads.cliques.clique_values import (
    NEW,
    OLD,
    a_clique,
    a_pod,
    a_set,
    after,
    ago,
    condition,
    decided,
    made,
    pods,
    removed,
)

_AT_OLD = PodCliqueStatus(
    observed_generation=1, current_pod_template_hash=OLD, current_pod_clique_set_generation_hash=OLD
)
_TURN = a_set(turn=True)


def outdated(
    replicas: int = 3, least: int | None = None, status: PodCliqueStatus = _AT_OLD, **more: Any
) -> PodClique:
    """A clique that has just got another template."""
    return a_clique(replicas, least, status=status, **more)


def share(unavailable: int | str | None = None, surge: int | str | None = None) -> RollingUpdate:
    return RollingUpdate(unavailable, surge)


def test_ru7_the_oldest_ready_pod_goes_first_and_alone() -> None:
    clique = outdated()
    ages = [(0, 10), (1, 30), (2, 20)]
    having = [a_pod(clique, index, up=True, hash_=OLD, age=age) for index, age in ages]
    plan = decided(clique, having, _TURN)
    assert (removed(plan), made(plan)) == ([1], [1])
    progress = plan.status.update_progress
    assert progress == PodCliqueUpdateProgress(
        NEW, NEW, ago(0), None, SelectedPods(having[1].metadata.name)
    )


def test_ru10_the_next_one_waits_until_the_last_is_replaced() -> None:
    clique = outdated()
    having = [a_pod(clique, 0, up=False), *pods(clique, 1, 2, hash_=OLD)]
    assert decided(clique, having, _TURN).is_idle


def test_outdated_pods_that_are_not_ready_go_at_once() -> None:
    clique = outdated(3, 1)
    having = [
        *pods(clique, 0, hash_=OLD),
        a_pod(clique, 1, up=False, hash_=OLD),
        a_pod(clique, 2, hash_=OLD),
    ]
    assert removed(decided(clique, having, _TURN)) == [1, 2]


def test_nothing_goes_before_its_replica_has_its_turn() -> None:
    clique = outdated()
    assert decided(clique, pods(clique, 0, 1, 2, hash_=OLD)).is_idle


def test_cliques_of_scaling_groups_are_not_updated_pod_by_pod() -> None:
    clique = outdated(labels={names.SCALING_GROUP: "sys-0-g"})
    plan = decided(clique, pods(clique, 0, 1, 2, hash_=OLD), _TURN)
    assert plan.is_idle
    assert plan.status.update_progress is None


@pytest.mark.parametrize(
    ("how", "replicas", "least", "going"),
    [
        (None, 4, 2, 1),
        (share(2), 4, 2, 2),
        (share("50%"), 5, 5, 2),
        (share("100%"), 3, 3, 3),
        (share("10%"), 4, 4, 1),
        (share(0, 0), 4, 4, 1),
        (share(0, 1), 4, 4, 0),
    ],
)
def test_as_many_go_as_may_be_missing(
    how: RollingUpdate | None, replicas: int, least: int, going: int
) -> None:
    clique = outdated(replicas, least, update=how)
    plan = decided(clique, pods(clique, *range(replicas), hash_=OLD), _TURN)
    assert len(removed(plan)) == going


def test_no_ready_pod_goes_while_fewer_are_ready_than_must_be() -> None:
    clique = outdated(4, 4, update=share(3))
    having = [a_pod(clique, 0, up=False), *pods(clique, 1, 2, 3, hash_=OLD)]
    assert decided(clique, having, _TURN).is_idle


_NO_ROOM = Condition("PodScheduled", "False", "Unschedulable", last_transition_time=ago(30))
_DOUBTED = replace(_NO_ROOM, last_transition_time=ago(29))


def updating(*taken: str) -> PodCliqueStatus:
    """In the middle of an update that took some ready pods."""
    selected = SelectedPods(taken[-1], taken[:-1]) if taken else None
    return replace(
        _AT_OLD, update_progress=PodCliqueUpdateProgress(NEW, NEW, ago(9), None, selected)
    )


@pytest.mark.parametrize(
    ("least", "taken", "conditions", "going"),
    [
        (1, (), [_NO_ROOM], [1]),
        (1, (), [_DOUBTED], []),
        (1, (), [], []),
        (2, (), [_NO_ROOM], [1]),
        (3, (), [_NO_ROOM], []),
        (1, ("one",), [_NO_ROOM], []),
    ],
)
def test_pod_that_had_no_room_before_an_update_does_not_hold_it_up(
    least: int, taken: tuple[str, ...], conditions: list[Condition], going: list[int]
) -> None:
    clique = outdated(3, least, updating(*taken))
    having = [a_pod(clique, 0, conditions=conditions), *pods(clique, 1, 2, hash_=OLD)]
    assert removed(decided(clique, having, _TURN)) == going


def test_no_room_is_believed_only_after_a_while_and_when_nobody_is_leaving() -> None:
    clique = outdated(3, 1, updating())
    rest = pods(clique, 1, 2, hash_=OLD)
    doubted = decided(clique, [a_pod(clique, 0, conditions=[_DOUBTED]), *rest], _TURN)
    assert (removed(doubted), doubted.after) == ([], 1)
    leaving = a_pod(clique, 0, up=True, ending=True)
    successor = a_pod(clique, 0, 1, conditions=[_NO_ROOM])
    assert decided(clique, [leaving, successor, *rest], _TURN).is_idle


def test_edit_of_an_update_without_room_takes_no_further_pod() -> None:
    stuck = PodCliqueUpdateProgress("mid", "mid", ago(9), None, SelectedPods("one"))
    clique = outdated(3, 1, replace(_AT_OLD, update_progress=stuck))
    having = [
        a_pod(clique, 0, conditions=[_NO_ROOM], hash_="mid"),
        *pods(clique, 1, 2, hash_=OLD),
    ]
    first = decided(clique, having, _TURN)
    assert removed(first) == [0]
    clique.status = first.status
    having = [a_pod(clique, 0, 1, conditions=[_NO_ROOM]), *having[1:]]
    assert decided(clique, having, _TURN).is_idle


def test_temporary_pods_come_first_where_there_may_be_more() -> None:
    clique = outdated(2, update=share(0, "50%"))
    plan = decided(clique, pods(clique, 0, 1, hash_=OLD), _TURN)
    assert (made(plan), removed(plan)) == ([2], [])


def test_od1_nothing_is_deleted_and_the_update_is_over_at_once() -> None:
    clique = outdated()
    plan = decided(clique, pods(clique, 0, 1, 2, hash_=OLD), a_set(on_delete=True, turn=True))
    assert plan.is_idle
    assert plan.status.update_progress == PodCliqueUpdateProgress(NEW, NEW, ago(0), ago(0))
    assert plan.status.updated_replicas == 0
    assert plan.status.current_pod_template_hash == OLD
    assert condition(plan, "UpdateInProgress") == ("False", "UpdateCompleted")
    assert condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


def test_od9_outdated_pods_go_when_the_strategy_no_longer_waits_for_people() -> None:
    over = PodCliqueUpdateProgress(NEW, NEW, ago(90), ago(90))
    clique = outdated(status=replace(_AT_OLD, update_progress=over))
    plan = decided(clique, pods(clique, 0, 1, 2, hash_=OLD), _TURN)
    assert len(plan.delete) == 1
    assert plan.status.update_progress is not None
    assert plan.status.update_progress.update_ended_at is None


def test_the_first_pods_of_a_clique_are_no_update() -> None:
    plan = decided(a_clique(2))
    assert plan.status.update_progress is None
    assert plan.status.current_pod_template_hash == NEW
    assert condition(plan, "UpdateInProgress") is None


def test_a_change_elsewhere_in_the_set_is_no_update() -> None:
    known = replace(_AT_OLD, current_pod_template_hash=NEW)
    clique = a_clique(2, status=known)
    plan = decided(clique, pods(clique, 0, 1), _TURN)
    assert plan.is_idle
    assert plan.status.update_progress is None
    assert plan.status.current_pod_clique_set_generation_hash == NEW


def test_an_update_ends_when_all_pods_are_new_and_enough_are_up() -> None:
    begun = PodCliqueUpdateProgress(NEW, NEW, ago(90))
    clique = outdated(status=replace(_AT_OLD, update_progress=begun))
    starting = decided(clique, [*pods(clique, 0, 1), a_pod(clique, 2, up=False)], _TURN)
    assert starting.status.update_progress == begun
    plan = decided(clique, pods(clique, 0, 1, 2))
    assert plan.status.update_progress == replace(begun, update_ended_at=ago(0))
    assert plan.status.current_pod_template_hash == NEW
    assert condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


@pytest.mark.parametrize(
    ("ended", "taken"), [(None, SelectedPods("a")), (ago(50), None)], ids=["open", "ended"]
)
def test_an_edit_of_an_edit_begins_anew_with_what_is_not_made_up_for(
    ended: str | None, taken: SelectedPods | None
) -> None:
    begun = PodCliqueUpdateProgress("between", "between", ago(90), ended, SelectedPods("a"))
    clique = outdated(status=replace(_AT_OLD, update_progress=begun))
    plan = decided(clique, pods(clique, 0, 1, 2, hash_="between"), a_set())
    assert plan.status.update_progress == PodCliqueUpdateProgress(NEW, NEW, ago(0), None, taken)


def test_selected_pods_are_remembered_once() -> None:
    known = SelectedPods("b", ("a",))
    begun = PodCliqueUpdateProgress(NEW, NEW, ago(90), None, known)
    clique = outdated(status=replace(_AT_OLD, update_progress=begun))
    plan = decided(clique, pods(clique, 0, 1, 2, hash_=OLD), _TURN)
    assert plan.status.update_progress is not None
    name = names.pod("sys-0-w", 0, 0)
    assert plan.status.update_progress.ready_pods_selected_to_update == SelectedPods(
        name, ("a", "b")
    )
    again = outdated(status=plan.status)
    repeated = decided(again, pods(again, 0, 1, 2, hash_=OLD), _TURN)
    assert repeated.status.update_progress == plan.status.update_progress


def test_an_update_that_does_not_get_on_is_said_to_be_stuck() -> None:
    update = RollingUpdate(progress_deadline="1m")
    begun = PodCliqueUpdateProgress(NEW, NEW, ago(90))
    clique = outdated(update=update, status=replace(_AT_OLD, update_progress=begun))
    having = [a_pod(clique, 0, up=False), *pods(clique, 1, 2, hash_=OLD)]
    plan = decided(clique, having, _TURN)
    assert condition(plan, "UpdateInProgress") == ("Unknown", "ProgressDeadlineExceeded")
    assert plan.after is None


def test_a_pod_that_gets_ready_is_progress() -> None:
    update = RollingUpdate(progress_deadline="1m")
    begun = PodCliqueUpdateProgress(NEW, NEW, ago(90))
    clique = outdated(update=update, status=replace(_AT_OLD, update_progress=begun))
    ready = Condition("Ready", "True", last_transition_time=ago(20))
    having = [
        a_pod(clique, 0, node="n", conditions=[ready]),
        a_pod(clique, 1, up=False),
        *pods(clique, 2, hash_=OLD),
    ]
    plan = decided(clique, having, _TURN)
    assert condition(plan, "UpdateInProgress") == ("True", "UpdateInProgress")
    assert plan.after == 40


@given(
    replicas=st.integers(1, 6),
    least=st.integers(1, 6),
    unavailable=st.integers(0, 3),
    surge=st.integers(0, 3),
    gaps=st.sets(st.integers(0, 9), max_size=3),
    luck=st.lists(st.integers(0, 9), min_size=40, max_size=40),
)
def test_every_update_ends_and_never_misses_more_than_it_may(
    replicas: int, least: int, unavailable: int, surge: int, gaps: set[int], luck: list[int]
) -> None:
    clique = outdated(replicas, min(least, replicas), update=share(unavailable, surge))
    indexes = [index for index in range(20) if index not in gaps][:replicas]
    having = pods(clique, *indexes, hash_=OLD)
    missing_at_most = unavailable if unavailable or surge else 1
    plan = decided(clique, having, _TURN)
    for chance in [*luck, *[0] * 40]:
        plan = decided(clique, having, _TURN)
        clique = PodClique(clique.metadata, clique.spec, plan.status)
        having = [pod for pod in after(clique, having, plan) if not is_ending(pod)]
        assert len(having) <= replicas + surge
        assert sum(map(is_ready, having)) >= replicas - missing_at_most
        having = _one_gets_ready(having, chance)
    assert plan.is_idle
    assert all(is_current(clique, pod) and is_ready(pod) for pod in having)
    assert len(having) == replicas
    assert plan.status.update_progress is not None
    assert plan.status.update_progress.update_ended_at == ago(0)
    if surge:
        assert sorted(map(index_in, having)) == list(range(replicas))


def _one_gets_ready(having: list[Pod], chance: int) -> list[Pod]:
    waiting = [pod for pod in having if not is_ready(pod)]
    if not waiting:
        return having
    chosen = waiting[chance % len(waiting)]
    status = replace(chosen.status, conditions=(Condition("Ready", "True"),))
    ready = Pod(chosen.metadata, replace(chosen.spec, node_name="n"), status)
    return [ready if pod is chosen else pod for pod in having]
