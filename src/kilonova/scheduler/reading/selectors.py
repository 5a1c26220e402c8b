"""Conditions on labels, from how the API writes them to values that `core` decides on."""

from collections.abc import Mapping
from typing import cast

from kilonova.scheduler.core.asks import NodeTerm
from kilonova.scheduler.core.labels import NAME
from kilonova.scheduler.core.requirements import Operator, Requirement
from kilonova.scheduler.objects import LabelRequirement, LabelSelector, NodeSelector
from kilonova.scheduler.objects import NodeTerm as WireTerm

Requirements = tuple[Requirement, ...]


def requirement_of(requirement: LabelRequirement) -> Requirement:
    operator = cast("Operator", requirement.operator)
    return Requirement(requirement.key, operator, requirement.values)


def requirements_of(selector: LabelSelector | None) -> Requirements | None:
    """What labels must meet; None, which nothing meets, where nothing is said."""
    if selector is None:
        return None
    return (
        *(Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items())),
        *map(requirement_of, selector.match_expressions),
    )


def node_term_of(term: WireTerm) -> NodeTerm:
    return NodeTerm(
        tuple(map(requirement_of, term.match_expressions)),
        tuple(map(requirement_of, term.match_fields)),
    )


def node_terms_of(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Terms of which a node must meet one."""
    return tuple(map(node_term_of, selector.node_selector_terms))


def reaches(selector: NodeSelector | None, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector means a node; where there is none, all are meant."""
    if selector is None:
        return True
    name = {NAME: node}
    return any(
        bool(term.labels or term.names)
        and all(each.holds(labels) for each in term.labels)
        and all(each.holds(name) for each in term.names)
        for term in node_terms_of(selector)
    )
