"""Which pods a clique makes and removes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.meta import Condition
from kilonova.workloads.cliques.roster import index_in, lost_labels, roster_of
from kilonova.workloads.pods import is_ending
from kilonova.workloads.resources import Pod
from tests.workloads.cliques.clique_values import (
    OLD,
    a_clique,
    a_pod,
    a_set,
    after,
    decided,
    made,
    pods,
    removed,
)


def test_a_new_clique_makes_all_of_its_pods() -> None:
    plan = decided(a_clique(3))
    assert made(plan) == [0, 1, 2]
    assert [each.name for each in plan.create] == [names.pod("sys-0-w", i, 0) for i in range(3)]
    assert not any(each.gated for each in plan.create)


def test_a_clique_with_all_its_pods_does_nothing() -> None:
    clique = a_clique(3)
    assert decided(clique, pods(clique, 0, 1, 2)).is_idle


def test_new_pods_take_the_lowest_free_indexes() -> None:
    clique = a_clique(4)
    assert made(decided(clique, pods(clique, 1, 5))) == [0, 2]


def test_the_index_of_a_pod_that_ends_is_given_to_one_of_another_name() -> None:
    clique = a_clique(2)
    plan = decided(clique, [*pods(clique, 0), a_pod(clique, 1, up=True, ending=True)])
    assert [(each.index, each.name) for each in plan.create] == [(1, names.pod("sys-0-w", 1, 1))]


def test_pods_of_a_clique_that_had_the_name_before_only_take_their_names() -> None:
    clique = a_clique(1)
    plan = decided(clique, [a_pod(clique, 0, owner="another")])
    assert [each.name for each in plan.create] == [names.pod("sys-0-w", 0, 1)]
    assert plan.delete == ()


@pytest.mark.parametrize(
    ("change", "put_back"),
    [
        ({}, {}),
        ({names.POD_CLIQUE: None}, {names.POD_CLIQUE: "sys-0-w"}),
        ({names.POD_CLIQUE: "another"}, {names.POD_CLIQUE: "sys-0-w"}),
        ({names.PART_OF: None}, {names.PART_OF: "sys"}),
        ({names.PART_OF: "mine", "note": "x"}, {}),
        ({names.POD_TEMPLATE_HASH: None}, {}),
        ({names.POD_TEMPLATE_HASH: OLD}, {}),
    ],
)
def test_labels_that_a_pod_has_lost(
    change: dict[str, str | None], put_back: dict[str, str]
) -> None:
    pod = a_pod(a_clique(1), 0)
    labels = {**pod.metadata.labels, **change}
    found = {key: value for key, value in labels.items() if value is not None}
    changed = Pod(replace(pod.metadata, labels=found), pod.spec, pod.status)
    assert lost_labels(changed, pod.metadata.labels) == put_back


@pytest.mark.parametrize(
    ("states", "goes"),
    [
        ([(0, True), (1, True), (2, True)], 2),
        ([(0, True), (1, False), (2, True)], 1),
        ([(0, None), (1, False), (2, True)], 0),
        ([(0, None), (1, None), (2, True)], 1),
    ],
)
def test_scale_in_takes_what_is_missed_least(
    states: list[tuple[int, bool | None]], goes: int
) -> None:
    clique = a_clique(2)
    plan = decided(clique, [a_pod(clique, index, up=up) for index, up in states])
    assert removed(plan) == [goes]
    assert plan.create == ()


def test_od3_scale_in_takes_outdated_pods_first() -> None:
    clique = a_clique(2)
    having = [a_pod(clique, 0, up=True, hash_=OLD), *pods(clique, 1, 2)]
    assert removed(decided(clique, having, a_set(on_delete=True))) == [0]


def test_a_clique_is_scaled_to_zero_and_back() -> None:
    clique = a_clique(0, 2)
    plan = decided(clique, pods(clique, 0, 1))
    assert removed(plan) == [0, 1]
    assert made(decided(a_clique(2))) == [0, 1]


def test_pods_of_another_incarnation_go_at_once_and_are_replaced() -> None:
    clique = a_clique(2, incarnation=2)
    earlier = [
        a_pod(clique, 0, up=True, annotations={names.INCARNATION: "1"}),
        a_pod(clique, 1, phase="Failed", annotations={names.INCARNATION: "1"}),
    ]
    plan = decided(clique, earlier)
    assert removed(plan) == [0, 1]
    assert [each.name for each in plan.create] == [names.pod("sys-0-w", i, 1) for i in range(2)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_replaced(phase: str) -> None:
    clique = a_clique(2)
    plan = decided(clique, [*pods(clique, 0), a_pod(clique, 1, up=False, phase=phase)])
    assert (removed(plan), made(plan)) == ([1], [1])


def test_an_evicted_pod_is_replaced_and_is_no_failure_of_its_work() -> None:
    clique = a_clique(1, restart="Never")
    evicted = a_pod(
        clique, 0, up=False, phase="Failed", conditions=[Condition("DisruptionTarget", "True")]
    )
    plan = decided(clique, [evicted], a_set(backoff_limit=0))
    assert (removed(plan), made(plan)) == ([0], [0])


def test_of_two_pods_with_one_index_the_better_stays() -> None:
    clique = a_clique(1)
    plan = decided(clique, [a_pod(clique, 0, up=False), a_pod(clique, 0, 1, up=True)])
    assert [pod.metadata.name for pod in plan.delete] == [names.pod("sys-0-w", 0, 0)]
    assert plan.create == ()


def test_a_pod_that_lost_its_index_is_replaced() -> None:
    clique = a_clique(1)
    plan = decided(clique, [a_pod(clique, 0, up=True, labels={names.POD_INDEX: "?"})])
    assert (len(plan.delete), made(plan)) == (1, [0])


_changes = st.lists(
    st.tuples(
        st.sampled_from(["scale", "delete", "vanish", "ready", "incarnation", "crash"]),
        st.integers(0, 6),
    ),
    max_size=25,
)


@given(_changes)
def test_no_two_live_pods_ever_have_one_index_and_none_changes_its_own(
    changes: list[tuple[str, int]],
) -> None:
    clique, having = a_clique(3), list[Pod]()
    for what, number in changes:
        clique, having = _happened(clique, having, what, number)
        before = {pod.metadata.name: index_in(pod) for pod in having}
        plan = decided(clique, having)
        having = after(clique, having, plan)
        live = [pod for pod in having if not is_ending(pod)]
        indexes = [index_in(pod) for pod in live]
        assert len(set(indexes)) == len(indexes) == clique.spec.replicas
        assert len({pod.metadata.name for pod in having}) == len(having)
        assert all(before.get(pod.metadata.name, index_in(pod)) == index_in(pod) for pod in live)
        assert decided(clique, having).is_idle


def _happened(
    clique: PodClique, having: list[Pod], what: str, number: int
) -> tuple[PodClique, list[Pod]]:
    own, spec = clique.metadata, clique.spec
    if what == "scale":
        return PodClique(own, replace(spec, replicas=number), clique.status), having
    if what == "incarnation":
        notes = {names.INCARNATION: str(number)}
        return PodClique(replace(own, annotations=notes), spec, clique.status), having
    if what == "vanish":
        return clique, [pod for pod in having if not is_ending(pod)]
    if not having:
        return clique, having
    chosen = having[number % len(having)]
    if what == "delete":
        gone = replace(chosen.metadata, deletion_timestamp="2026-05-01T00:00:00Z")
        changed = Pod(gone, chosen.spec, chosen.status)
    elif what == "crash":
        changed = Pod(chosen.metadata, chosen.spec, replace(chosen.status, phase="Failed"))
    else:
        ready = replace(chosen.status, conditions=(Condition("Ready", "True"),))
        changed = Pod(chosen.metadata, chosen.spec, ready)
    return clique, [changed if pod is chosen else pod for pod in having]


def test_the_roster_is_sorted_by_index() -> None:
    clique = a_clique(3)
    assert [index_in(pod) for pod in roster_of(clique, pods(clique, 2, 0, 1)).members] == [0, 1, 2]
