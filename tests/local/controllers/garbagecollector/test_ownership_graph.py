"""The ownership graph by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.controllers.garbagecollector.graph import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    GraphNode,
    GraphTask,
    Metadata,
    OwnerReference,
    OwnershipGraph,
)


def owner(uid: str, *, blocks: bool | None = None, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(uid, kind, f"name-of-{uid}", "v1", None, blocks)


def metadata(
    uid: str, *owners: OwnerReference, finalizers: tuple[str, ...] = (), deleted: bool = False
) -> Metadata:
    when = "2026-05-01T00:00:00Z" if deleted else None
    return Metadata(f"name-of-{uid}", uid, "1", "default", owners, finalizers, when)


def graph_of(*objects: Metadata) -> OwnershipGraph:
    graph = OwnershipGraph()
    for each in objects:
        graph.observe("configmaps", each)
    return graph


@pytest.mark.parametrize(
    ("state", "task"),
    [
        (metadata("a"), GraphTask.NOTHING),
        (metadata("a", owner("o")), GraphTask.CHECK_OWNERS),
        (metadata("a", finalizers=(FOREGROUND_FINALIZER,)), GraphTask.NOTHING),
        (
            metadata("a", finalizers=(FOREGROUND_FINALIZER,), deleted=True),
            GraphTask.DELETE_DEPENDENTS,
        ),
        (metadata("a", finalizers=(ORPHAN_FINALIZER,), deleted=True), GraphTask.ORPHAN_DEPENDENTS),
        (metadata("a", finalizers=("other",), deleted=True), GraphTask.NOTHING),
        (metadata("a", owner("o"), deleted=True), GraphTask.NOTHING),
    ],
)
def test_tasks_follow_from_metadata(state: Metadata, task: GraphTask) -> None:
    assert GraphNode("configmaps", state).task is task


def test_deletion_enqueues_the_dependents() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")), metadata("b"))
    assert graph.forget("o") == {"a"}
    assert graph.is_absent("o")


def test_owner_that_was_never_observed_is_not_absent() -> None:
    graph = graph_of(metadata("a", owner("o")))
    assert not graph.is_absent("o")


def test_owner_that_is_no_longer_watched_is_not_absent() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    assert graph.forget("o", absent=False) == {"a"}
    assert not graph.is_absent("o")


def test_absent_owner_without_dependents_is_forgotten() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    graph.forget("o")
    graph.forget("a")
    assert not graph.is_absent("o")


def test_deletion_of_a_dependent_enqueues_the_waiting_owner() -> None:
    waiting = metadata("o", finalizers=(FOREGROUND_FINALIZER,), deleted=True)
    graph = graph_of(waiting, metadata("a", owner("o", blocks=True)))
    assert graph.forget("a") == {"o"}


def test_dependent_that_stops_blocking_enqueues_the_waiting_owner() -> None:
    waiting = metadata("o", finalizers=(FOREGROUND_FINALIZER,), deleted=True)
    graph = graph_of(waiting, metadata("a", owner("o", blocks=True)))
    assert graph.blocking_dependents("o")
    assert graph.observe("configmaps", metadata("a", owner("o", blocks=False))) == {"a", "o"}
    assert not graph.blocking_dependents("o")


def test_change_unrelated_to_ownership_enqueues_nothing() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    assert graph.observe("configmaps", metadata("a", owner("o"))) == set()


def test_an_object_that_owns_itself_does_not_block_itself() -> None:
    graph = graph_of(
        metadata("a", owner("a", blocks=True), finalizers=(FOREGROUND_FINALIZER,), deleted=True)
    )
    assert graph.blocking_dependents("a") == []


def test_owners_are_found_by_their_kind() -> None:
    graph = graph_of(metadata("a", owner("o", kind="Widget")), metadata("b", owner("o")))
    assert graph.owned_by_kind("", "Widget") == {"a"}
    assert graph.owned_by_kind("apps", "Widget") == set()


UIDS = "abcde"
states = st.builds(
    lambda uid, owners, deleted, finalizers: metadata(
        uid,
        *(owner(each, blocks=blocks) for each, blocks in owners.items()),
        finalizers=tuple(finalizers),
        deleted=deleted,
    ),
    st.sampled_from(UIDS),
    st.dictionaries(st.sampled_from(UIDS), st.booleans(), max_size=3),
    st.booleans(),
    st.lists(st.sampled_from([FOREGROUND_FINALIZER, "other"]), max_size=1),
)


@given(st.lists(states | st.sampled_from(UIDS), max_size=30))
def test_graph_depends_only_on_the_last_states(
    history: list[Metadata | str],
) -> None:
    graph = OwnershipGraph()
    last: dict[str, Metadata] = {}
    for step in history:
        if isinstance(step, str):
            graph.forget(step)
            last.pop(step, None)
        else:
            graph.observe("configmaps", step)
            last[step.uid] = step
    for uid in UIDS:
        expected = {
            other
            for other, state in last.items()
            if any(each.uid == uid for each in state.owner_references)
        }
        assert {node.metadata.uid for node in graph.dependents(uid)} == expected
        assert not (graph.is_absent(uid) and uid in last)
        if graph.is_absent(uid):
            assert expected


@given(st.lists(states, max_size=20), st.sampled_from(UIDS))
def test_object_that_loses_an_owner_is_enqueued(objects: list[Metadata], lost: str) -> None:
    graph = graph_of(*objects)
    dependents = {node.metadata.uid for node in graph.dependents(lost)} - {lost}
    assert dependents <= graph.forget(lost)
