"""The rules of our own workload definitions, on schemas like theirs."""

from typing import Any

import pytest

from kilonova.local.apiserver.schema.cel import RuleSet, rule_set
from kilonova.local.apiserver.schema.cel.rule_validation import validate_rules
from kilonova.local.apiserver.schema.node import Schema, parse_schema

DEPRECATED = "packDomain is deprecated and cannot be used on new workloads; use pack.required"


def constraint() -> dict[str, Any]:
    domain = {"type": "string", "maxLength": 63}
    return {
        "type": "object",
        "properties": {
            "topologyName": {"type": "string"},
            "packDomain": domain,
            "pack": {
                "type": "object",
                "properties": {"required": domain, "preferred": domain},
                "x-kubernetes-validations": [
                    {
                        "rule": "has(self.required) || has(self.preferred)",
                        "message": "at least one of required or preferred must be set",
                    }
                ],
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "has(self.pack) || has(self.packDomain)",
                "message": "pack or packDomain must be set",
            },
            {
                "rule": "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
                "message": "packDomain and pack.required are mutually exclusive",
            },
        ],
    }


def workload() -> Schema:
    named = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "topologyConstraint": constraint()},
    }
    template = {
        "type": "object",
        "properties": {
            "topologyConstraint": constraint(),
            "cliques": {"type": "array", "items": named},
            "podCliqueScalingGroups": {"type": "array", "items": named},
        },
    }
    clean = "{0}.all(c, !has(c.topologyConstraint) || !has(c.topologyConstraint.packDomain))"
    template_path = "self.spec.template"
    free = [
        f"!has({template_path}.topologyConstraint) || "
        f"!has({template_path}.topologyConstraint.packDomain)",
        clean.format(f"{template_path}.cliques"),
        f"!has({template_path}.podCliqueScalingGroups) || "
        + clean.format(f"{template_path}.podCliqueScalingGroups"),
    ]
    return parse_schema(
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"template": template}},
            },
            "x-kubernetes-validations": [
                {
                    "rule": f"oldSelf.hasValue() || ({rule})",
                    "optionalOldSelf": True,
                    "reason": "FieldValueForbidden",
                    "message": DEPRECATED,
                }
                for rule in free
            ],
        }
    )


def gang_map() -> Schema:
    entry = {
        "type": "object",
        "required": ["epoch", "role"],
        "properties": {
            "epoch": {"type": "string"},
            "role": {"type": "string", "enum": ["Anchor", "Tail", "ScaleOut"]},
            "anchorIndex": {"type": "integer"},
        },
        "x-kubernetes-validations": [
            {"rule": "(self.role == 'Anchor') == has(self.anchorIndex)", "message": "anchorIndex"},
            {"rule": "self.role == oldSelf.role", "message": "role is immutable"},
        ],
    }
    entries = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["epoch"],
        "items": entry,
    }
    spec = {"type": "object", "properties": {"entries": entries}}
    return parse_schema({"type": "object", "properties": {"spec": spec}})


def compiled(schema: Schema) -> RuleSet:
    assert validate_rules(schema, "openAPIV3Schema") == []
    result = rule_set(schema)
    assert result is not None
    return result


def workload_of(**template: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "spec": {"template": {"cliques": [], **template}}}


@pytest.mark.parametrize(
    ("template", "problems"),
    [
        ({"topologyConstraint": {"pack": {"required": "rack"}}}, []),
        ({"topologyConstraint": {"packDomain": "rack"}}, [f"<nil>: Forbidden: {DEPRECATED}"]),
        (
            {"cliques": [{"name": "a"}, {"topologyConstraint": {"packDomain": "rack"}}]},
            [f"<nil>: Forbidden: {DEPRECATED}"],
        ),
        (
            {"topologyConstraint": {"topologyName": "t"}},
            [
                "spec.template.topologyConstraint: Invalid value: pack or packDomain must be set",
            ],
        ),
        (
            {"topologyConstraint": {"pack": {}}},
            [
                "spec.template.topologyConstraint.pack: Invalid value: at least one of required or "
                "preferred must be set",
            ],
        ),
    ],
)
def test_topology_constraints_of_a_new_workload(
    template: dict[str, Any], problems: list[str]
) -> None:
    found = compiled(workload()).check(workload_of(**template))
    assert [str(problem) for problem in found] == problems


def test_workload_may_keep_the_deprecated_field() -> None:
    old = workload_of(topologyConstraint={"packDomain": "rack"})
    new = workload_of(topologyConstraint={"packDomain": "rack"}, cliques=[{"name": "a"}])
    assert compiled(workload()).check(new, old) == []


def test_gang_map_entries_are_correlated_by_epoch() -> None:
    rules = compiled(gang_map())
    anchor = {"epoch": "1", "role": "Anchor", "anchorIndex": 0}
    tail = {"epoch": "2", "role": "Tail"}
    old = {"spec": {"entries": [anchor, tail]}}
    assert rules.check(old) == []
    moved = {"spec": {"entries": [{**tail, "role": "ScaleOut"}, anchor]}}
    assert [str(problem) for problem in rules.check(moved, old)] == [
        "spec.entries[0]: Invalid value: role is immutable"
    ]
    odd = {"spec": {"entries": [{**tail, "anchorIndex": 3}]}}
    assert [problem.message for problem in rules.check(odd)] == ["Invalid value: anchorIndex"]
