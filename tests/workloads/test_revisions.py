"""Revisions of sets: which changes create a new one."""

from dataclasses import replace as with_fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import CliqueTemplate, PodCliqueSet
from kilonova.kube.controllers.controller_revisions import ControllerRevision
from kilonova.workloads.revisions import (
    SetRevision,
    build_controller_revision,
    decode_revision,
    resolve_current_revision,
    select_revisions_to_delete,
)
from tests.workloads.api_objects import clique, decode_built, pod_clique_set, pod_template


def to_controller_revision(set_: PodCliqueSet, revision: SetRevision) -> ControllerRevision:
    """A revision as the API returns it."""
    return decode_built(build_controller_revision(set_, revision), ControllerRevision)


def edit_set(set_: PodCliqueSet, *cliques: CliqueTemplate, **template: Any) -> PodCliqueSet:
    """A set with other cliques, or other fields of its template."""
    fields = {"cliques": cliques, **template} if cliques else template
    own = replace(set_.spec, template=replace(set_.spec.template, **fields))
    return PodCliqueSet(set_.metadata, own, set_.status)


A = pod_clique_set(clique("leader"), clique("worker", 3))
FIRST = resolve_current_revision(A, [])
RECORDED = with_fields(FIRST, name="sys-old", hash="old", hashes={"leader": "l", "worker": "w"})
"""As an operator that hashes otherwise has left it."""


def test_first_revision_of_a_set_is_number_one() -> None:
    assert (FIRST.number, set(FIRST.hashes)) == (1, {"leader", "worker"})
    assert FIRST.name == f"sys-{FIRST.hash}"


def test_stored_revision_is_decoded_unchanged() -> None:
    assert decode_revision(to_controller_revision(A, FIRST)) == FIRST


@pytest.mark.parametrize(
    "set_",
    [
        edit_set(A, clique("worker", 3), clique("leader")),
        edit_set(A, clique("leader", 2), clique("worker", 7, 1)),
        edit_set(A, termination_delay="1h"),
    ],
    ids=["order of cliques", "replicas", "termination delay"],
)
def test_edit_without_pod_changes_creates_no_revision(set_: PodCliqueSet) -> None:
    assert resolve_current_revision(set_, [to_controller_revision(A, FIRST)]) == FIRST


@pytest.mark.parametrize(
    ("set_", "changed"),
    [
        (edit_set(A, clique("leader", labels={"a": "b"}), clique("worker", 3)), {"leader"}),
        (edit_set(A, clique("leader", annotations={"a": "b"}), clique("worker", 3)), {"leader"}),
        (edit_set(A, clique("leader"), clique("worker", pod_spec=pod_template(1))), {"worker"}),
        (edit_set(A, priority_class_name="high"), {"leader", "worker"}),
    ],
    ids=["labels", "annotations", "pod", "priority"],
)
def test_edit_of_pods_creates_a_revision(set_: PodCliqueSet, changed: set[str]) -> None:
    second = resolve_current_revision(set_, [to_controller_revision(A, FIRST)])
    assert second.number == 2
    assert second.hash != FIRST.hash
    assert {name for name in FIRST.hashes if FIRST.hashes[name] != second.hashes[name]} == changed


def test_rollback_reuses_the_old_revision_as_the_newest() -> None:
    b = edit_set(A, priority_class_name="high")
    second = resolve_current_revision(b, [to_controller_revision(A, FIRST)])
    known = [to_controller_revision(A, FIRST), to_controller_revision(b, second)]
    assert resolve_current_revision(A, known) == with_fields(FIRST, number=3)
    assert resolve_current_revision(b, known) == second


def test_operator_with_another_hash_function_keeps_recorded_hashes() -> None:
    assert resolve_current_revision(A, [to_controller_revision(A, RECORDED)]) == RECORDED


def test_unchanged_cliques_keep_recorded_hashes() -> None:
    b = edit_set(A, clique("leader", labels={"a": "b"}), clique("worker", 3))
    second = resolve_current_revision(b, [to_controller_revision(A, RECORDED)])
    assert second.hashes["worker"] == "w"
    assert second.hashes["leader"] == resolve_current_revision(b, []).hashes["leader"]
    third = resolve_current_revision(
        edit_set(b, priority_class_name="high"),
        [to_controller_revision(A, RECORDED), to_controller_revision(b, second)],
    )
    assert third.hashes["worker"] != "w"


def test_old_revisions_are_deleted_unless_in_use() -> None:
    known = [
        to_controller_revision(
            A, with_fields(FIRST, name=f"sys-{number}", hash=f"h{number}", number=number)
        )
        for number in range(1, 14)
    ]
    assert {each.revision for each in select_revisions_to_delete(known, used_hashes={"h2"})} == {
        1,
        3,
    }
    assert select_revisions_to_delete(known[:10], used_hashes=set[str]()) == []


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), _json, max_size=4))
def test_any_pod_spec_survives_a_round_trip(pod_spec: dict[str, Any]) -> None:
    set_ = pod_clique_set(clique("worker", pod_spec=pod_spec))
    first = resolve_current_revision(set_, [])
    kept = msgspec.json.decode(
        msgspec.json.encode(to_controller_revision(set_, first)), type=ControllerRevision
    )
    assert resolve_current_revision(set_, [kept]) == first
