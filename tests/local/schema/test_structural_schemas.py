"""Which schemas a custom kind may have."""

from typing import Any

import pytest

from kilonova.local.schema.check import structural_problems
from tests.local.schema.cases import load


@pytest.mark.parametrize(
    "case", load("structural_cases.yaml"), ids=lambda case: str(case["schema"])
)
def test_a_schema_is_refused_for_the_reasons_that_kubernetes_gives(case: dict[str, Any]) -> None:
    found = {str(problem) for problem in structural_problems(case["schema"])}
    assert sorted(found) == case["problems"]


def test_problems_are_placed_where_the_schema_stands() -> None:
    found = structural_problems({}, "spec.versions[1].schema.openAPIV3Schema")
    assert [problem.path for problem in found] == ["spec.versions[1].schema.openAPIV3Schema.type"]


def test_checking_changes_nothing() -> None:
    field = {"type": "object", "default": {"x": {"y": 1}}}
    structural_problems({"type": "object", "properties": {"f": field}})
    assert field == {"type": "object", "default": {"x": {"y": 1}}}
