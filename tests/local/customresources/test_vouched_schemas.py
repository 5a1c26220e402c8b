"""Schemas that somebody vouches for are not judged; so they are judged here."""

from typing import Any

import pytest

from kilonova.api.crds import definitions
from kilonova.local.customresources import definition_problems, vouch_for
from kilonova.local.schema.cel.review import rule_problems
from kilonova.local.schema.check import structural_problems
from kilonova.local.schema.node import read

SHIPPED = {each["metadata"]["name"]: each for each in definitions()}


@pytest.mark.parametrize("name", SHIPPED)
def test_schemas_that_come_with_the_program_would_pass(name: str) -> None:
    for version in SHIPPED[name]["spec"]["versions"]:
        source = version["schema"]["openAPIV3Schema"]
        assert structural_problems(source) == []
        assert rule_problems(read(source), "") == []


def test_a_schema_is_spared_by_its_content_only() -> None:
    vouch_for(_definition("vouched"))
    assert not _places(_definition("vouched"))
    assert _places(_definition("other")) == ["spec.validation.openAPIV3Schema.properties[other]"]


def test_only_schemas_are_spared() -> None:
    definition = _definition("vouched-again")
    definition["spec"]["scope"] = "Everywhere"
    vouch_for(definition)
    assert _places(definition) == ["spec.scope"]


def _definition(field: str) -> dict[str, Any]:
    """One whose schema is not structural: the field has no type."""
    schema = {"type": "object", "properties": {field: {}}}
    version: dict[str, Any] = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": "things.probe.io"},
        "spec": {
            "group": "probe.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
        "status": {"storedVersions": ["v1"]},
    }


def _places(definition: dict[str, Any]) -> list[str]:
    return [each.path.removesuffix(".type") for each in definition_problems(definition)]
