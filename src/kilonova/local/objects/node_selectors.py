"""Matching of node selectors. Pure."""

import re
from collections.abc import Mapping

from kilonova.local.objects.core import NodeSelector, NodeSelectorRequirement


def matches_node(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether one of its terms matches the node; an empty term matches none."""
    fields = {"metadata.name": name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(_matches_requirement(each, labels) for each in term.match_expressions)
        and all(_matches_requirement(each, fields) for each in term.match_fields)
        for term in selector.node_selector_terms
    )


def _matches_requirement(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            found, bound = _parse_integer(value), _parse_integer("".join(requirement.values))
            if found is None or bound is None:
                return False
            return found > bound if requirement.operator == "Gt" else found < bound
        case _:
            return False


def _parse_integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[+-]?[0-9]+", text) else None
