"""Which pods a clique creates and deletes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.meta import Condition
from kilonova.workloads.pods.classification import (
    classify_pods,
    find_lost_labels,
    require_pod_index,
)
from kilonova.workloads.pods.state import is_terminating
from kilonova.workloads.resources import Pod
from tests.workloads.controllers.podclique.clique_objects import (
    OLD,
    apply_plan,
    build_clique,
    build_pod,
    build_pods,
    build_set,
    list_created_indexes,
    list_deleted_indexes,
    plan_pods,
)


def test_new_clique_creates_all_of_its_pods() -> None:
    plan = plan_pods(build_clique(3))
    assert list_created_indexes(plan) == [0, 1, 2]
    assert [each.name for each in plan.create] == [names.pod("sys-0-w", i, 0) for i in range(3)]
    assert not any(each.gated for each in plan.create)


def test_a_clique_with_all_its_pods_does_nothing() -> None:
    clique = build_clique(3)
    assert plan_pods(clique, build_pods(clique, 0, 1, 2)).is_idle


def test_new_pods_take_the_lowest_free_indexes() -> None:
    clique = build_clique(4)
    assert list_created_indexes(plan_pods(clique, build_pods(clique, 1, 5))) == [0, 2]


def test_index_of_a_terminating_pod_is_reused_under_another_name() -> None:
    clique = build_clique(2)
    plan = plan_pods(clique, [*build_pods(clique, 0), build_pod(clique, 1, up=True, ending=True)])
    assert [(each.index, each.name) for each in plan.create] == [(1, names.pod("sys-0-w", 1, 1))]


def test_pods_of_an_earlier_clique_only_reserve_their_names() -> None:
    clique = build_clique(1)
    plan = plan_pods(clique, [build_pod(clique, 0, owner="another")])
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
def test_lost_labels_of_a_pod_are_found(
    change: dict[str, str | None], put_back: dict[str, str]
) -> None:
    pod = build_pod(build_clique(1), 0)
    labels = {**pod.metadata.labels, **change}
    found = {key: value for key, value in labels.items() if value is not None}
    changed = Pod(replace(pod.metadata, labels=found), pod.spec, pod.status)
    assert find_lost_labels(changed, pod.metadata.labels) == put_back


@pytest.mark.parametrize(
    ("states", "goes"),
    [
        ([(0, True), (1, True), (2, True)], 2),
        ([(0, True), (1, False), (2, True)], 1),
        ([(0, None), (1, False), (2, True)], 0),
        ([(0, None), (1, None), (2, True)], 1),
    ],
)
def test_scale_in_deletes_the_least_valuable_pods(
    states: list[tuple[int, bool | None]], goes: int
) -> None:
    clique = build_clique(2)
    plan = plan_pods(clique, [build_pod(clique, index, up=up) for index, up in states])
    assert list_deleted_indexes(plan) == [goes]
    assert plan.create == ()


def test_od3_scale_in_deletes_outdated_pods_first() -> None:
    clique = build_clique(2)
    pods = [build_pod(clique, 0, up=True, hash_=OLD), *build_pods(clique, 1, 2)]
    assert list_deleted_indexes(plan_pods(clique, pods, build_set(on_delete=True))) == [0]


def test_a_clique_is_scaled_to_zero_and_back() -> None:
    clique = build_clique(0, 2)
    plan = plan_pods(clique, build_pods(clique, 0, 1))
    assert list_deleted_indexes(plan) == [0, 1]
    assert list_created_indexes(plan_pods(build_clique(2))) == [0, 1]


def test_pods_of_another_incarnation_are_replaced_at_once() -> None:
    clique = build_clique(2, incarnation=2)
    earlier = [
        build_pod(clique, 0, up=True, annotations={names.INCARNATION: "1"}),
        build_pod(clique, 1, phase="Failed", annotations={names.INCARNATION: "1"}),
    ]
    plan = plan_pods(clique, earlier)
    assert list_deleted_indexes(plan) == [0, 1]
    assert [each.name for each in plan.create] == [names.pod("sys-0-w", i, 1) for i in range(2)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_finished_pod_is_replaced(phase: str) -> None:
    clique = build_clique(2)
    plan = plan_pods(clique, [*build_pods(clique, 0), build_pod(clique, 1, up=False, phase=phase)])
    assert (list_deleted_indexes(plan), list_created_indexes(plan)) == ([1], [1])


def test_evicted_pod_is_replaced_and_does_not_count_as_failed() -> None:
    clique = build_clique(1, restart="Never")
    evicted = build_pod(
        clique, 0, up=False, phase="Failed", conditions=[Condition("DisruptionTarget", "True")]
    )
    plan = plan_pods(clique, [evicted], build_set(backoff_limit=0))
    assert (list_deleted_indexes(plan), list_created_indexes(plan)) == ([0], [0])


def test_better_of_two_pods_with_one_index_stays() -> None:
    clique = build_clique(1)
    plan = plan_pods(clique, [build_pod(clique, 0, up=False), build_pod(clique, 0, 1, up=True)])
    assert [pod.metadata.name for pod in plan.delete] == [names.pod("sys-0-w", 0, 0)]
    assert plan.create == ()


def test_a_pod_that_lost_its_index_is_replaced() -> None:
    clique = build_clique(1)
    plan = plan_pods(clique, [build_pod(clique, 0, up=True, labels={names.POD_INDEX: "?"})])
    assert (len(plan.delete), list_created_indexes(plan)) == (1, [0])


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
    clique, pods = build_clique(3), list[Pod]()
    for what, number in changes:
        clique, pods = _apply_change(clique, pods, what, number)
        before = {pod.metadata.name: require_pod_index(pod) for pod in pods}
        plan = plan_pods(clique, pods)
        pods = apply_plan(clique, pods, plan)
        live = [pod for pod in pods if not is_terminating(pod)]
        indexes = [require_pod_index(pod) for pod in live]
        assert len(set(indexes)) == len(indexes) == clique.spec.replicas
        assert len({pod.metadata.name for pod in pods}) == len(pods)
        assert all(
            before.get(pod.metadata.name, require_pod_index(pod)) == require_pod_index(pod)
            for pod in live
        )
        assert plan_pods(clique, pods).is_idle


def _apply_change(
    clique: PodClique, pods: list[Pod], what: str, number: int
) -> tuple[PodClique, list[Pod]]:
    own, spec = clique.metadata, clique.spec
    if what == "scale":
        return PodClique(own, replace(spec, replicas=number), clique.status), pods
    if what == "incarnation":
        notes = {names.INCARNATION: str(number)}
        return PodClique(replace(own, annotations=notes), spec, clique.status), pods
    if what == "vanish":
        return clique, [pod for pod in pods if not is_terminating(pod)]
    if not pods:
        return clique, pods
    chosen = pods[number % len(pods)]
    if what == "delete":
        gone = replace(chosen.metadata, deletion_timestamp="2026-05-01T00:00:00Z")
        changed = Pod(gone, chosen.spec, chosen.status)
    elif what == "crash":
        changed = Pod(chosen.metadata, chosen.spec, replace(chosen.status, phase="Failed"))
    else:
        ready = replace(chosen.status, conditions=(Condition("Ready", "True"),))
        changed = Pod(chosen.metadata, chosen.spec, ready)
    return clique, [changed if pod is chosen else pod for pod in pods]


def test_members_are_sorted_by_index() -> None:
    clique = build_clique(3)
    assert [
        require_pod_index(pod) for pod in classify_pods(clique, build_pods(clique, 2, 0, 1)).members
    ] == [0, 1, 2]
