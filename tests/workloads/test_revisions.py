"""Revisions of sets: what makes a new one, and what does not."""

from dataclasses import replace as with_fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import CliqueTemplate, PodCliqueSet
from kilonova.workloads.resources import Revision
from kilonova.workloads.revisions import (
    SetRevision,
    current_revision,
    read_revision,
    revision_object,
    spent_revisions,
)
from tests.workloads.builders import clique, made, pod_clique_set, pod_template


def stored(set_: PodCliqueSet, revision: SetRevision) -> Revision:
    """A revision as the API gives it back."""
    return made(revision_object(set_, revision), Revision)


def edited(set_: PodCliqueSet, *cliques: CliqueTemplate, **template: Any) -> PodCliqueSet:
    """A set with other cliques, or other fields of its template."""
    fields = {"cliques": cliques, **template} if cliques else template
    own = replace(set_.spec, template=replace(set_.spec.template, **fields))
    return PodCliqueSet(set_.metadata, own, set_.status)


A = pod_clique_set(clique("leader"), clique("worker", 3))
FIRST = current_revision(A, [])
RECORDED = with_fields(FIRST, name="sys-old", hash="old", hashes={"leader": "l", "worker": "w"})
"""As an operator that hashes otherwise has left it."""


def test_first_revision_of_a_set_is_number_one() -> None:
    assert (FIRST.number, set(FIRST.hashes)) == (1, {"leader", "worker"})
    assert FIRST.name == f"sys-{FIRST.hash}"


def test_what_is_stored_is_read_back() -> None:
    assert read_revision(stored(A, FIRST)) == FIRST


@pytest.mark.parametrize(
    "set_",
    [
        edited(A, clique("worker", 3), clique("leader")),
        edited(A, clique("leader", 2), clique("worker", 7, 1)),
        edited(A, termination_delay="1h"),
    ],
    ids=["order of cliques", "replicas", "termination delay"],
)
def test_edit_that_leaves_pods_as_they_are_makes_no_revision(set_: PodCliqueSet) -> None:
    assert current_revision(set_, [stored(A, FIRST)]) == FIRST


@pytest.mark.parametrize(
    ("set_", "changed"),
    [
        (edited(A, clique("leader", labels={"a": "b"}), clique("worker", 3)), {"leader"}),
        (edited(A, clique("leader", annotations={"a": "b"}), clique("worker", 3)), {"leader"}),
        (edited(A, clique("leader"), clique("worker", pod_spec=pod_template(1))), {"worker"}),
        (edited(A, priority_class_name="high"), {"leader", "worker"}),
    ],
    ids=["labels", "annotations", "pod", "priority"],
)
def test_edit_of_pods_makes_a_revision(set_: PodCliqueSet, changed: set[str]) -> None:
    second = current_revision(set_, [stored(A, FIRST)])
    assert second.number == 2
    assert second.hash != FIRST.hash
    assert {name for name in FIRST.hashes if FIRST.hashes[name] != second.hashes[name]} == changed


def test_edit_taken_back_finds_the_old_revision_and_makes_it_the_newest() -> None:
    b = edited(A, priority_class_name="high")
    second = current_revision(b, [stored(A, FIRST)])
    known = [stored(A, FIRST), stored(b, second)]
    assert current_revision(A, known) == with_fields(FIRST, number=3)
    assert current_revision(b, known) == second


def test_operator_that_hashes_otherwise_goes_on_with_the_hashes_that_were_recorded() -> None:
    assert current_revision(A, [stored(A, RECORDED)]) == RECORDED


def test_cliques_that_an_edit_leaves_as_they_are_keep_the_hashes_that_were_recorded() -> None:
    b = edited(A, clique("leader", labels={"a": "b"}), clique("worker", 3))
    second = current_revision(b, [stored(A, RECORDED)])
    assert second.hashes["worker"] == "w"
    assert second.hashes["leader"] == current_revision(b, []).hashes["leader"]
    third = current_revision(
        edited(b, priority_class_name="high"), [stored(A, RECORDED), stored(b, second)]
    )
    assert third.hashes["worker"] != "w"


def test_old_revisions_go_unless_something_is_made_from_them() -> None:
    known = [
        stored(A, with_fields(FIRST, name=f"sys-{number}", hash=f"h{number}", number=number))
        for number in range(1, 14)
    ]
    assert {each.revision for each in spent_revisions(known, used={"h2"})} == {1, 3}
    assert spent_revisions(known[:10], used=set[str]()) == []


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), _json, max_size=4))
def test_any_pod_is_recognised_after_a_round_trip(pod_spec: dict[str, Any]) -> None:
    set_ = pod_clique_set(clique("worker", pod_spec=pod_spec))
    first = current_revision(set_, [])
    kept = msgspec.json.decode(msgspec.json.encode(stored(set_, first)), type=Revision)
    assert current_revision(set_, [kept]) == first
