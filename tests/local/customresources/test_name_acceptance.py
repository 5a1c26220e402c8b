"""Names of definitions: who gets them, and what status says."""

from typing import Any

import pytest

from kilonova.local.customresources import (
    CLEANUP_FINALIZER,
    accept_names,
    is_established,
    kinds_of,
    mark_terminating,
)

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def definition(plural: str, kind: str, group: str = "probe.io", **names: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
                **names,
            },
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


def accepted(*others: dict[str, Any], **names: Any) -> dict[str, Any]:
    made = definition(**names)
    accept_names(made, others, THEN)
    return made


def conditions(definition: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in definition["status"]["conditions"]
    }


def test_free_names_are_accepted_and_the_definition_is_established() -> None:
    made = accepted(plural="things", kind="Thing", shortNames=["th"], categories=["all"])
    assert made["status"] == {
        "acceptedNames": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
            "shortNames": ["th"],
            "categories": ["all"],
        },
        "storedVersions": ["v1"],
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": THEN,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": THEN,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
    }
    assert is_established(made)


@pytest.mark.parametrize(
    ("names", "reason", "message", "left"),
    [
        (
            {"plural": "wings", "kind": "Wing", "singular": "thing", "shortNames": ["things", "w"]},
            "ShortNamesConflict",
            '"things" is already in use',
            {"plural": "wings", "kind": "Wing", "listKind": "WingList"},
        ),
        (
            {"plural": "thing", "kind": "Wing", "singular": "wing"},
            "PluralConflict",
            '"thing" is already in use',
            {"plural": "", "singular": "wing", "kind": "Wing", "listKind": "WingList"},
        ),
        (
            {"plural": "wings", "kind": "Thing", "singular": "wing", "listKind": "WingList"},
            "KindConflict",
            '"Thing" is already in use',
            {"plural": "wings", "singular": "wing", "kind": "", "listKind": "WingList"},
        ),
    ],
)
def test_names_of_another_definition_are_refused(
    names: dict[str, Any], reason: str, message: str, left: dict[str, Any]
) -> None:
    first = accepted(plural="things", kind="Thing")
    second = accepted(first, **names)
    assert second["status"]["acceptedNames"] == left
    assert conditions(second) == {
        "NamesAccepted": ("False", reason, message),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert kinds_of(second) == []


def test_another_group_may_use_the_same_names() -> None:
    first = accepted(plural="things", kind="Thing")
    assert is_established(accepted(first, plural="things", kind="Thing", group="other.io"))


def test_a_definition_keeps_its_own_names_and_the_time_they_were_accepted() -> None:
    made = accepted(plural="things", kind="Thing", shortNames=["th"])
    accept_names(made, [], NOW)
    assert {each["lastTransitionTime"] for each in made["status"]["conditions"]} == {THEN}


def test_an_established_definition_stays_so_when_a_new_name_is_refused() -> None:
    other = accepted(plural="wings", kind="Wing", shortNames=["w"])
    made = accepted(other, plural="things", kind="Thing")
    made["spec"]["names"]["shortNames"] = ["w"]
    accept_names(made, [other], NOW)
    assert conditions(made)["NamesAccepted"][1] == "ShortNamesConflict"
    assert is_established(made)
    assert "shortNames" not in made["status"]["acceptedNames"]


def test_the_status_of_an_older_object_is_not_touched() -> None:
    old = accepted(plural="things", kind="Thing")
    new = {**old, "spec": definition("things", "Thing", shortNames=["th"])["spec"]}
    new["spec"]["versions"] = [{"name": "v2", "served": True, "storage": True}]
    accept_names(new, [], NOW)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert old["status"]["storedVersions"] == ["v1"]
    assert "shortNames" not in old["status"]["acceptedNames"]


def test_a_deleted_definition_waits_for_its_instances_and_takes_no_new_ones() -> None:
    made = accepted(plural="things", kind="Thing")
    assert "create" in kinds_of(made)[0].verbs
    made["metadata"]["deletionTimestamp"] = NOW
    mark_terminating(made, NOW)
    assert made["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
    assert conditions(made)["Terminating"][:2] == ("True", "InstanceDeletionPending")
    assert "create" not in kinds_of(made)[0].verbs
