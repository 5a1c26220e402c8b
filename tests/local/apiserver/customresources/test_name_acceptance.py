"""Acceptance of names of definitions, and the resulting status."""

from typing import Any

import pytest

from kilonova.local.apiserver.customresources import kinds_from_definition
from kilonova.local.objects.crd_names import (
    CLEANUP_FINALIZER,
    accept_names,
    is_established,
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
    result = definition(**names)
    accept_names(result, others, THEN)
    return result


def conditions(definition: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in definition["status"]["conditions"]
    }


def test_unused_names_are_accepted_and_establish_the_definition() -> None:
    result = accepted(plural="things", kind="Thing", shortNames=["th"], categories=["all"])
    assert result["status"] == {
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
    assert is_established(result)


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
def test_names_of_another_definition_are_rejected(
    names: dict[str, Any], reason: str, message: str, left: dict[str, Any]
) -> None:
    first = accepted(plural="things", kind="Thing")
    second = accepted(first, **names)
    assert second["status"]["acceptedNames"] == left
    assert conditions(second) == {
        "NamesAccepted": ("False", reason, message),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert kinds_from_definition(second) == []


def test_other_groups_may_use_the_same_names() -> None:
    first = accepted(plural="things", kind="Thing")
    assert is_established(accepted(first, plural="things", kind="Thing", group="other.io"))


def test_accepted_names_keep_their_transition_time() -> None:
    result = accepted(plural="things", kind="Thing", shortNames=["th"])
    accept_names(result, [], NOW)
    assert {each["lastTransitionTime"] for each in result["status"]["conditions"]} == {THEN}


def test_definition_stays_established_when_a_new_name_is_rejected() -> None:
    other = accepted(plural="wings", kind="Wing", shortNames=["w"])
    result = accepted(other, plural="things", kind="Thing")
    result["spec"]["names"]["shortNames"] = ["w"]
    accept_names(result, [other], NOW)
    assert conditions(result)["NamesAccepted"][1] == "ShortNamesConflict"
    assert is_established(result)
    assert "shortNames" not in result["status"]["acceptedNames"]


def test_status_of_the_older_object_is_not_modified() -> None:
    old = accepted(plural="things", kind="Thing")
    new = {**old, "spec": definition("things", "Thing", shortNames=["th"])["spec"]}
    new["spec"]["versions"] = [{"name": "v2", "served": True, "storage": True}]
    accept_names(new, [], NOW)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert old["status"]["storedVersions"] == ["v1"]
    assert "shortNames" not in old["status"]["acceptedNames"]


def test_terminating_definition_accepts_no_new_instances() -> None:
    result = accepted(plural="things", kind="Thing")
    assert "create" in kinds_from_definition(result)[0].verbs
    result["metadata"]["deletionTimestamp"] = NOW
    mark_terminating(result, NOW)
    assert result["metadata"]["finalizers"] == [CLEANUP_FINALIZER]
    assert conditions(result)["Terminating"][:2] == ("True", "InstanceDeletionPending")
    assert "create" not in kinds_from_definition(result)[0].verbs
