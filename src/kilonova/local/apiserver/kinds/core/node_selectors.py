"""Validation of node selectors."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.names import (
    dns_subdomain_error,
    label_value_error,
    qualified_name_error,
)
from kilonova.local.apimachinery.unstructured import nested_objects, nested_strings

_BAD_OPERATOR = "not a valid selector operator"


def validate_node_selector(selector: JsonObject, path: str) -> Iterator[FieldError]:
    """Terms, each with requirements on labels and on `metadata.name`."""
    path = f"{path}.nodeSelectorTerms"
    terms = nested_objects(selector, "nodeSelectorTerms")
    if not terms:
        yield required_value(path, "must have at least one node selector term")
    for index, term in enumerate(terms):
        for position, requirement in enumerate(nested_objects(term, "matchExpressions")):
            yield from _validate_label_requirement(
                requirement, f"{path}[{index}].matchExpressions[{position}]"
            )
        for position, requirement in enumerate(nested_objects(term, "matchFields")):
            yield from _validate_field_requirement(
                requirement, f"{path}[{index}].matchFields[{position}]"
            )


def _validate_label_requirement(requirement: JsonObject, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), nested_strings(requirement, "values")
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required_value(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_value(f"{path}.values", detail)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield required_value(f"{path}.values", detail)
    else:
        yield invalid_value(f"{path}.operator", operator, _BAD_OPERATOR)
    key = requirement.get("key", "")
    if error := qualified_name_error(key):
        yield invalid_value(f"{path}.key", key, error)
    for index, value in enumerate(values):
        if error := label_value_error(value):
            yield invalid_value(f"{path}.values[{index}]", value, error)


def _validate_field_requirement(requirement: JsonObject, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), nested_strings(requirement, "values")
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required_value(f"{path}.values", detail)
    key = requirement.get("key", "")
    if key != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        if error := dns_subdomain_error(value):
            yield invalid_value(f"{path}.values[{index}]", value, error)
