"""Validation of structural schemas."""

from typing import Any

import pytest

from kilonova.local.apiserver.schema.checker import validate_structural
from tests.local.apiserver.schema.cases import load


@pytest.mark.parametrize(
    "case", load("structural_cases.yaml"), ids=lambda case: str(case["schema"])
)
def test_schema_is_rejected_with_kubernetes_messages(case: dict[str, Any]) -> None:
    found = {str(problem) for problem in validate_structural(case["schema"])}
    assert sorted(found) == case["problems"]


def test_errors_have_the_path_of_the_schema() -> None:
    found = validate_structural({}, "spec.versions[1].schema.openAPIV3Schema")
    assert [problem.path for problem in found] == ["spec.versions[1].schema.openAPIV3Schema.type"]


def test_validation_does_not_modify_the_schema() -> None:
    field = {"type": "object", "default": {"x": {"y": 1}}}
    validate_structural({"type": "object", "properties": {"f": field}})
    assert field == {"type": "object", "default": {"x": {"y": 1}}}
