"""Label selectors and node selectors."""

from collections.abc import Mapping
from typing import cast

from kilonova.scheduler.core.model.label_columns import NODE_NAME
from kilonova.scheduler.core.model.requests import NodeSelectorTerm
from kilonova.scheduler.core.model.requirements import Operator, Requirement
from kilonova.scheduler.objects.core_v1 import LabelRequirement, LabelSelector, NodeSelector
from kilonova.scheduler.objects.core_v1 import NodeSelectorTerm as WireTerm

Requirements = tuple[Requirement, ...]


def convert_requirement(requirement: LabelRequirement) -> Requirement:
    operator = cast("Operator", requirement.operator)
    return Requirement(requirement.key, operator, requirement.values)


def convert_label_selector(selector: LabelSelector | None) -> Requirements | None:
    """The requirements of a selector; None, which matches nothing, for no selector."""
    if selector is None:
        return None
    return (
        *(Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())),
        *map(convert_requirement, selector.match_expressions),
    )


def convert_node_term(term: WireTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(map(convert_requirement, term.match_expressions)),
        tuple(map(convert_requirement, term.match_fields)),
    )


def convert_node_selector(selector: NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    """The terms of which a node must meet one."""
    return tuple(map(convert_node_term, selector.node_selector_terms))


def matches_node_selector(
    selector: NodeSelector | None, node: str, labels: Mapping[str, str]
) -> bool:
    """Whether a selector matches a node; no selector matches all."""
    if selector is None:
        return True
    name = {NODE_NAME: node}
    return any(
        bool(term.labels or term.names)
        and all(each.matches(labels) for each in term.labels)
        and all(each.matches(name) for each in term.names)
        for term in convert_node_selector(selector)
    )
