"""Trusted schemas are not validated by the server, so they are validated here."""

from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apiserver.customresources import (
    trust_definition,
    validate_definition,
    version_validation,
)
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


def test_valid_schema_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[Any] = []

    def validate(source: Any, path: str) -> list[FieldError]:
        validated.append(source)
        return validate_structural(source, path)

    monkeypatch.setattr(version_validation, "validate_structural", validate)
    first, second = _definition("written-twice"), _definition("invalid-twice")
    _schema(first)["properties"]["written-twice"] = {"type": "string"}
    assert [_places(each) for each in (first, first)] == [[], []]
    assert [len(_places(each)) for each in (second, second)] == [1, 1]
    assert validated == [_schema(first), _schema(second), _schema(second)]


def test_change_of_a_valid_schema_is_validated() -> None:
    definition = _definition("changed-later")
    _schema(definition)["properties"]["changed-later"] = {"type": "string"}
    assert not _places(definition)
    _schema(definition)["properties"]["added"] = {}
    assert _places(definition) == ["spec.validation.openAPIV3Schema.properties[added]"]


def _schema(definition: dict[str, Any]) -> dict[str, Any]:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


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
