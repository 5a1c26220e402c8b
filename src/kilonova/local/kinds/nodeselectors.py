"""Rules for selectors of nodes."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value, required
from kilonova.local.kinds.walk import objects, strings
from kilonova.local.names import dns_subdomain, label_value, qualified_name

_BAD_OPERATOR = "not a valid selector operator"


def node_selector_problems(selector: JsonObject, path: str) -> Iterator[Problem]:
    """Terms, each with requirements on labels and on the name."""
    path = f"{path}.nodeSelectorTerms"
    terms = objects(selector, "nodeSelectorTerms")
    if not terms:
        yield required(path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        for place, requirement in enumerate(objects(term, "matchExpressions")):
            yield from _on_labels(requirement, f"{path}[{index}].matchExpressions[{place}]")
        for place, requirement in enumerate(objects(term, "matchFields")):
            yield from _on_fields(requirement, f"{path}[{index}].matchFields[{place}]")


def _on_labels(requirement: JsonObject, path: str) -> Iterator[Problem]:
    operator, values = requirement.get("operator", ""), strings(requirement, "values")
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{path}.values", detail)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required(f"{path}.values", detail)
    else:
        yield invalid_value(f"{path}.operator", operator, _BAD_OPERATOR)
    key = requirement.get("key", "")
    if trouble := qualified_name(key):
        yield invalid_value(f"{path}.key", key, trouble)
    for index, value in enumerate(values):
        if trouble := label_value(value):
            yield invalid_value(f"{path}.values[{index}]", value, trouble)


def _on_fields(requirement: JsonObject, path: str) -> Iterator[Problem]:
    operator, values = requirement.get("operator", ""), strings(requirement, "values")
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", detail)
    key = requirement.get("key", "")
    if key != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        if trouble := dns_subdomain(value):
            yield invalid_value(f"{path}.values[{index}]", value, trouble)
