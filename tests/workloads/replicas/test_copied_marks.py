"""Labels and annotations that people write on a set, and what becomes of them on its objects."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, names
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import started


def marked(
    labels: dict[str, str], annotations: dict[str, str], in_group: dict[str, str] | None = None
) -> PodCliqueSet:
    members = group("x", "b", annotations=in_group or {})
    return pod_clique_set(
        clique("a"), clique("b"), groups=[members], labels=labels, annotations=annotations
    )


def test_what_is_taken_from_a_set_is_taken_from_its_gangs() -> None:
    world = started(marked({"team": "x", "tier": "1"}, {"note": "n"}))
    world.edit(marked({"tier": "2"}, {}))
    (plan,) = world.settle()
    assert [each.name for each in plan.patches] == ["sys-0"]
    found = world.gangs["sys-0"].metadata
    assert "team" not in found.labels
    assert found.labels["tier"] == "2"
    assert "note" not in found.annotations


def test_what_others_have_added_to_a_gang_stays() -> None:
    world = started(marked({"team": "x"}, {"note": "n"}))
    own = world.gangs["sys-0"].metadata
    world.change(
        "PodGang",
        "sys-0",
        metadata=replace(
            own,
            labels={**own.labels, "theirs": "1"},
            annotations={**own.annotations, "theirs": "1"},
        ),
    )
    world.edit(marked({}, {}))
    world.settle()
    found = world.gangs["sys-0"].metadata
    assert found.labels["theirs"] == found.annotations["theirs"] == "1"
    assert found.annotations == {"theirs": "1"}, "and the note is gone with what it noted"


def test_annotations_taken_from_a_group_of_a_template_are_taken_from_the_group() -> None:
    world = started(marked({}, {}, {"note": "n"}))
    assert world.groups["sys-0-x"].metadata.annotations["note"] == "n"
    world.edit(marked({}, {}))
    world.settle()
    assert world.groups["sys-0-x"].metadata.annotations == {}


@pytest.mark.parametrize("note", ["", "[]", "{"])
def test_note_that_nobody_can_read_is_written_anew(note: str) -> None:
    world = started(marked({"team": "x"}, {}))
    own = world.gangs["sys-0"].metadata
    spoilt = replace(own, annotations={**own.annotations, names.NOTE: note})
    world.change("PodGang", "sys-0", metadata=spoilt)
    world.settle()
    assert world.gangs["sys-0"].metadata.annotations == own.annotations


@pytest.mark.parametrize(
    "key", ["grove.io/mine", "kubectl.kubernetes.io/last-applied-configuration"]
)
def test_books_of_tools_cost_no_write(key: str) -> None:
    world = started(marked({}, {"note": "n"}))
    world.edit(marked({}, {"note": "n", key: "x"}))
    assert world.settle() == []
