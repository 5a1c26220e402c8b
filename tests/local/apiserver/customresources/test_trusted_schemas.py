"""Trusted schemas are not validated by the server, so they are validated here."""

from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from kilonova.local.apiserver.customresources import trust_definition, validate_definition
from kilonova.local.apiserver.schema.cel.rule_validation import validate_rules
from kilonova.local.apiserver.schema.checker import validate_structural
from kilonova.local.apiserver.schema.node import parse_schema

SHIPPED = {each["metadata"]["name"]: each for each in load_definitions()}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_schemas_are_valid(name: str) -> None:
    for version in SHIPPED[name]["spec"]["versions"]:
        source = version["schema"]["openAPIV3Schema"]
        assert validate_structural(source) == []
        assert validate_rules(parse_schema(source), "") == []


def test_schema_is_trusted_by_content_only() -> None:
    trust_definition(_definition("vouched"))
    assert not _places(_definition("vouched"))
    assert _places(_definition("other")) == ["spec.validation.openAPIV3Schema.properties[other]"]


def test_trust_covers_schemas_only() -> None:
    definition = _definition("vouched-again")
    definition["spec"]["scope"] = "Everywhere"
    trust_definition(definition)
    assert _places(definition) == ["spec.scope"]


def _definition(field: str) -> dict[str, Any]:
    """A definition whose schema is not structural: the field has no type."""
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
    return [each.path.removesuffix(".type") for each in validate_definition(definition)]
