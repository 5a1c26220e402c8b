"""The graph of owners and dependents, by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Metadata,
    Node,
    OwnerReference,
    Task,
)


def owner(uid: str, *, blocks: bool | None = None, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(uid, kind, f"name-of-{uid}", "v1", None, blocks)


def metadata(
    uid: str, *owners: OwnerReference, finalizers: tuple[str, ...] = (), deleted: bool = False
) -> Metadata:
    when = "2026-05-01T00:00:00Z" if deleted else None
    return Metadata(f"name-of-{uid}", uid, "1", "default", owners, finalizers, when)


def graph_of(*objects: Metadata) -> Graph:
    graph = Graph()
    for each in objects:
        graph.observe("configmaps", each)
    return graph


@pytest.mark.parametrize(
    ("state", "task"),
    [
        (metadata("a"), Task.NOTHING),
        (metadata("a", owner("o")), Task.CHECK_OWNERS),
        (metadata("a", finalizers=(FOREGROUND,)), Task.NOTHING),
        (metadata("a", finalizers=(FOREGROUND,), deleted=True), Task.DELETE_DEPENDENTS),
        (metadata("a", finalizers=(ORPHAN,), deleted=True), Task.ORPHAN_DEPENDENTS),
        (metadata("a", finalizers=("other",), deleted=True), Task.NOTHING),
        (metadata("a", owner("o"), deleted=True), Task.NOTHING),
    ],
)
def test_what_an_object_needs_follows_from_its_metadata(state: Metadata, task: Task) -> None:
    assert Node("configmaps", state).task is task


def test_a_departure_concerns_the_dependents() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")), metadata("b"))
    assert graph.forget("o") == {"a"}
    assert graph.is_gone("o")


def test_an_owner_that_was_never_seen_is_not_known_to_be_gone() -> None:
    graph = graph_of(metadata("a", owner("o")))
    assert not graph.is_gone("o")


def test_an_owner_out_of_sight_is_not_gone() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    assert graph.forget("o", gone=False) == {"a"}
    assert not graph.is_gone("o")


def test_nothing_is_remembered_of_an_owner_that_nobody_names_any_more() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    graph.forget("o")
    graph.forget("a")
    assert not graph.is_gone("o")


def test_the_departure_of_a_dependent_concerns_an_owner_that_waits_for_it() -> None:
    waiting = metadata("o", finalizers=(FOREGROUND,), deleted=True)
    graph = graph_of(waiting, metadata("a", owner("o", blocks=True)))
    assert graph.forget("a") == {"o"}


def test_a_dependent_that_no_longer_blocks_concerns_the_owner_that_waited() -> None:
    waiting = metadata("o", finalizers=(FOREGROUND,), deleted=True)
    graph = graph_of(waiting, metadata("a", owner("o", blocks=True)))
    assert graph.blockers("o")
    assert graph.observe("configmaps", metadata("a", owner("o", blocks=False))) == {"a", "o"}
    assert not graph.blockers("o")


def test_a_change_that_is_not_about_owners_concerns_nobody() -> None:
    graph = graph_of(metadata("o"), metadata("a", owner("o")))
    assert graph.observe("configmaps", metadata("a", owner("o"))) == set()


def test_an_object_that_owns_itself_does_not_block_itself() -> None:
    graph = graph_of(metadata("a", owner("a", blocks=True), finalizers=(FOREGROUND,), deleted=True))
    assert graph.blockers("a") == []


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
    st.lists(st.sampled_from([FOREGROUND, "other"]), max_size=1),
)


@given(st.lists(states | st.sampled_from(UIDS), max_size=30))
def test_any_history_leaves_the_graph_that_the_last_states_make(
    history: list[Metadata | str],
) -> None:
    graph = Graph()
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
        assert not (graph.is_gone(uid) and uid in last)
        if graph.is_gone(uid):
            assert expected


@given(st.lists(states, max_size=20), st.sampled_from(UIDS))
def test_whoever_loses_an_owner_is_looked_at(objects: list[Metadata], lost: str) -> None:
    graph = graph_of(*objects)
    dependents = {node.metadata.uid for node in graph.dependents(lost)} - {lost}
    assert dependents <= graph.forget(lost)
