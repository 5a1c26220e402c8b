"""Defaults and validation of a claim's spec: requests, constraints, configuration."""

from collections.abc import Iterator, Mapping

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.unstructured import nested_objects, nested_strings
from kilonova.local.apiserver.kinds.resource.device_selectors import validate_device_selectors
from kilonova.local.apiserver.kinds.resource.name_validation import (
    validate_class_name,
    validate_dns_label,
    validate_driver_name,
    validate_items,
    validate_label_key,
    validate_label_value,
    validate_qualified_attribute_name,
    validate_unique_items,
)

MAX_REQUESTS = 32
MAX_CONFIGURATIONS = 32
_MAX_CONSTRAINTS = 32
_MAX_SUBREQUESTS = 8
_MAX_PARAMETERS_LENGTH = 10 * 1024
_MODES = ["All", "ExactCount"]
_OPERATORS = ["Equal", "Exists"]
EFFECTS = ["NoExecute", "NoSchedule", "None"]
_NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, each with the names of its subrequests."""


def set_request_defaults(spec: JsonObject) -> None:
    """Default the allocation mode to ExactCount, and the count to 1."""
    for request in nested_objects(spec, "devices", "requests"):
        exactly = request.get("exactly")
        for each_request in [
            *([exactly] if exactly else []),
            *nested_objects(request, "firstAvailable"),
        ]:
            if each_request.setdefault("allocationMode", "ExactCount") == "ExactCount":
                each_request.setdefault("count", 1)
            set_toleration_defaults(each_request)


def set_toleration_defaults(value: JsonObject) -> None:
    """Default a toleration's operator to Equal."""
    for toleration in nested_objects(value, "tolerations"):
        toleration.setdefault("operator", "Equal")


def request_names(spec: JsonObject) -> RequestNames:
    """The names that constraints and configurations may refer to."""
    return {
        request.get("name", ""): frozenset(
            each.get("name", "") for each in nested_objects(request, "firstAvailable")
        )
        for request in nested_objects(spec, "devices", "requests")
    }


def validate_claim_spec(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Validate the spec of a claim."""
    names = request_names(spec)
    requests = nested_objects(spec, "devices", "requests")
    path = f"{path}.devices"
    yield from validate_unique_items(
        requests, MAX_REQUESTS, _validate_request, f"{path}.requests", _item_name
    )

    def constraint(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        return _validate_constraint(value, item_path, names)

    def configuration(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        yield from validate_request_references(value, item_path, names)
        yield from validate_configuration(value, item_path)

    constraints = nested_objects(spec, "devices", "constraints")
    yield from validate_items(constraints, _MAX_CONSTRAINTS, constraint, f"{path}.constraints")
    configurations = nested_objects(spec, "devices", "config")
    yield from validate_items(configurations, MAX_CONFIGURATIONS, configuration, f"{path}.config")


def _item_name(value: JsonObject) -> str:
    return value.get("name", "")


def _validate_request(request: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_dns_label(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), nested_objects(request, "firstAvailable")
    detail = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        yield required_value(path, detail)
    elif exactly is not None and alternatives:
        yield invalid_value(path, None, f"{detail}, but multiple fields are set")
    elif exactly is not None:
        yield from _validate_device_request(exactly, f"{path}.exactly")
    else:
        field_path = f"{path}.firstAvailable"
        yield from validate_unique_items(
            alternatives, _MAX_SUBREQUESTS, _validate_subrequest, field_path, _item_name
        )


def _validate_subrequest(request: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_dns_label(request.get("name", ""), f"{path}.name")
    yield from _validate_device_request(request, path)


def _validate_device_request(request: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_class_name(request.get("deviceClassName", ""), f"{path}.deviceClassName")
    yield from validate_device_selectors(nested_objects(request, "selectors"), f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield not_supported_value(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield invalid_value(f"{path}.count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield invalid_value(f"{path}.count", count, "must be greater than zero")
    for index, toleration in enumerate(nested_objects(request, "tolerations")):
        yield from _validate_toleration(toleration, f"{path}.tolerations[{index}]")


def _validate_toleration(toleration: JsonObject, path: str) -> Iterator[FieldError]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        yield from validate_label_key(key, f"{path}.key")
    if operator == "Exists":
        if value:
            yield invalid_value(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from validate_label_value(value, f"{path}.value")
    else:
        yield not_supported_value(f"{path}.operator", operator, _OPERATORS)
    if effect and effect not in EFFECTS:
        yield not_supported_value(f"{path}.effect", effect, EFFECTS)


def _validate_constraint(
    constraint: JsonObject, path: str, names: RequestNames
) -> Iterator[FieldError]:
    yield from validate_request_references(constraint, path, names)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        yield from validate_qualified_attribute_name(match, f"{path}.matchAttribute")
    elif distinct is not None:
        yield from validate_qualified_attribute_name(distinct, f"{path}.distinctAttribute")
    else:
        # Kubernetes' message, although no field is set at all.
        detail = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set"
        )
        yield required_value(path, detail)


def validate_request_references(
    value: JsonObject, path: str, names: RequestNames
) -> Iterator[FieldError]:
    """`requests` of a constraint or a configuration: each a request of the claim, without
    duplicates.
    """

    def reference(name: str, item_path: str) -> Iterator[FieldError]:
        return validate_request_reference(name, item_path, names)

    names_in_use = nested_strings(value, "requests")
    yield from validate_unique_items(names_in_use, MAX_REQUESTS, reference, f"{path}.requests", str)


def validate_request_reference(name: str, path: str, names: RequestNames) -> Iterator[FieldError]:
    """`gpu`, or `gpu/large` for one of its subrequests."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid_value(path, name, _NO_SUCH_REQUEST)
        return
    for part in parts:
        yield from validate_dns_label(part, path)
    known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    if not known:
        yield invalid_value(path, name, _NO_SUCH_REQUEST)


def validate_configuration(value: JsonObject, path: str) -> Iterator[FieldError]:
    """Opaque parameters for a driver."""
    opaque: JsonObject | None = value.get("opaque")
    if opaque is None:
        yield required_value(f"{path}.opaque")
        return
    yield from validate_driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")
    yield from validate_raw_extension(opaque.get("parameters"), f"{path}.opaque.parameters")


def validate_raw_extension(value: object, path: str) -> Iterator[FieldError]:
    """An arbitrary object of limited size."""
    if value is None:
        yield required_value(path)
    elif len(msgspec.json.encode(value)) > _MAX_PARAMETERS_LENGTH:
        yield too_long_value(path, _MAX_PARAMETERS_LENGTH)
    elif not isinstance(value, dict):
        yield invalid_value(path, "<value omitted>", "must be a valid JSON object")
