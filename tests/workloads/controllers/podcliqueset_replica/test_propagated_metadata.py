"""Labels and annotations that are propagated from a set to its objects."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, names
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import start_replica


def build_annotated_set(
    labels: dict[str, str], annotations: dict[str, str], in_group: dict[str, str] | None = None
) -> PodCliqueSet:
    members = group("x", "b", annotations=in_group or {})
    return pod_clique_set(
        clique("a"), clique("b"), groups=[members], labels=labels, annotations=annotations
    )


def test_keys_removed_from_a_set_are_removed_from_its_gangs() -> None:
    replica = start_replica(build_annotated_set({"team": "x", "tier": "1"}, {"note": "n"}))
    replica.edit(build_annotated_set({"tier": "2"}, {}))
    (plan,) = replica.converge()
    assert [each.name for each in plan.patches] == ["sys-0"]
    found = replica.gangs["sys-0"].metadata
    assert "team" not in found.labels
    assert found.labels["tier"] == "2"
    assert "note" not in found.annotations


def test_keys_added_to_a_gang_by_others_stay() -> None:
    replica = start_replica(build_annotated_set({"team": "x"}, {"note": "n"}))
    own = replica.gangs["sys-0"].metadata
    replica.replace_parts(
        "PodGang",
        "sys-0",
        metadata=replace(
            own,
            labels={**own.labels, "theirs": "1"},
            annotations={**own.annotations, "theirs": "1"},
        ),
    )
    replica.edit(build_annotated_set({}, {}))
    replica.converge()
    found = replica.gangs["sys-0"].metadata
    assert found.labels["theirs"] == found.annotations["theirs"] == "1"
    assert found.annotations == {"theirs": "1"}, "and the note is gone with what it noted"


def test_annotations_removed_from_a_group_template_are_removed_from_the_group() -> None:
    replica = start_replica(build_annotated_set({}, {}, {"note": "n"}))
    assert replica.groups["sys-0-x"].metadata.annotations["note"] == "n"
    replica.edit(build_annotated_set({}, {}))
    replica.converge()
    assert replica.groups["sys-0-x"].metadata.annotations == {}


@pytest.mark.parametrize("note", ["", "[]", "{"])
def test_unreadable_record_of_keys_is_rewritten(note: str) -> None:
    replica = start_replica(build_annotated_set({"team": "x"}, {}))
    own = replica.gangs["sys-0"].metadata
    spoilt = replace(own, annotations={**own.annotations, names.COPIED_KEYS: note})
    replica.replace_parts("PodGang", "sys-0", metadata=spoilt)
    replica.converge()
    assert replica.gangs["sys-0"].metadata.annotations == own.annotations


@pytest.mark.parametrize(
    "key", ["grove.io/mine", "kubectl.kubernetes.io/last-applied-configuration"]
)
def test_annotations_of_tools_cause_no_write(key: str) -> None:
    replica = start_replica(build_annotated_set({}, {"note": "n"}))
    replica.edit(build_annotated_set({}, {"note": "n", key: "x"}))
    assert replica.converge() == []
