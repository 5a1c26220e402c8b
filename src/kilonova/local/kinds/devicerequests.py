"""What a claim asks for: requests, constraints between them, configuration for drivers."""

from collections.abc import Iterator, Mapping

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from kilonova.local.kinds.devicenames import (
    class_name,
    driver_name,
    each,
    each_once,
    full_attribute_name,
    label_key,
    label_text,
    short_name,
)
from kilonova.local.kinds.deviceselectors import selector_problems
from kilonova.local.kinds.walk import objects, strings

MOST_REQUESTS = 32
MOST_CONFIGURATIONS = 32
_MOST_CONSTRAINTS = 32
_MOST_ALTERNATIVES = 8
_LONGEST_PARAMETERS = 10 * 1024
_MODES = ["All", "ExactCount"]
_OPERATORS = ["Equal", "Exists"]
EFFECTS = ["NoExecute", "NoSchedule", "None"]
_NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, each with the names of its alternatives."""


def fill_requests(spec: JsonObject) -> None:
    """Without a mode a request is for an exact number of devices, without a number for one."""
    for request in objects(spec, "devices", "requests"):
        exactly = request.get("exactly")
        for each_request in [*([exactly] if exactly else []), *objects(request, "firstAvailable")]:
            if each_request.setdefault("allocationMode", "ExactCount") == "ExactCount":
                each_request.setdefault("count", 1)
            fill_tolerations(each_request)


def fill_tolerations(value: JsonObject) -> None:
    """A toleration is for one value, unless it says otherwise."""
    for toleration in objects(value, "tolerations"):
        toleration.setdefault("operator", "Equal")


def request_names(spec: JsonObject) -> RequestNames:
    """What the other parts of a claim may refer to."""
    return {
        request.get("name", ""): frozenset(
            each.get("name", "") for each in objects(request, "firstAvailable")
        )
        for request in objects(spec, "devices", "requests")
    }


def claim_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    """What is wrong with the spec of a claim."""
    names = request_names(spec)
    requests = objects(spec, "devices", "requests")
    path = f"{path}.devices"
    yield from each_once(requests, MOST_REQUESTS, _request, f"{path}.requests", _name_of)

    def constraint(value: JsonObject, here: str) -> Iterator[Problem]:
        return _constraint(value, here, names)

    def configuration(value: JsonObject, here: str) -> Iterator[Problem]:
        yield from references(value, here, names)
        yield from configuration_problems(value, here)

    constraints = objects(spec, "devices", "constraints")
    yield from each(constraints, _MOST_CONSTRAINTS, constraint, f"{path}.constraints")
    configurations = objects(spec, "devices", "config")
    yield from each(configurations, MOST_CONFIGURATIONS, configuration, f"{path}.config")


def _name_of(value: JsonObject) -> str:
    return value.get("name", "")


def _request(request: JsonObject, path: str) -> Iterator[Problem]:
    yield from short_name(request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), objects(request, "firstAvailable")
    wanted = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        yield required(path, wanted)
    elif exactly is not None and alternatives:
        yield invalid_value(path, None, f"{wanted}, but multiple fields are set")
    elif exactly is not None:
        yield from _devices(exactly, f"{path}.exactly")
    else:
        here = f"{path}.firstAvailable"
        yield from each_once(alternatives, _MOST_ALTERNATIVES, _alternative, here, _name_of)


def _alternative(request: JsonObject, path: str) -> Iterator[Problem]:
    yield from short_name(request.get("name", ""), f"{path}.name")
    yield from _devices(request, path)


def _devices(request: JsonObject, path: str) -> Iterator[Problem]:
    yield from class_name(request.get("deviceClassName", ""), f"{path}.deviceClassName")
    yield from selector_problems(objects(request, "selectors"), f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        yield invalid_value(f"{path}.count", count, detail)
    elif mode == "ExactCount" and count <= 0:
        yield invalid_value(f"{path}.count", count, "must be greater than zero")
    for index, toleration in enumerate(objects(request, "tolerations")):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")


def _toleration(toleration: JsonObject, path: str) -> Iterator[Problem]:
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        yield from label_key(key, f"{path}.key")
    if operator == "Exists":
        if value:
            yield invalid_value(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from label_text(value, f"{path}.value")
    else:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def _constraint(constraint: JsonObject, path: str, names: RequestNames) -> Iterator[Problem]:
    yield from references(constraint, path, names)
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        yield from full_attribute_name(match, f"{path}.matchAttribute")
    elif distinct is not None:
        yield from full_attribute_name(distinct, f"{path}.distinctAttribute")
    else:
        # Kubernetes' own words, though nothing is set at all.
        detail = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set"
        )
        yield required(path, detail)


def references(value: JsonObject, path: str, names: RequestNames) -> Iterator[Problem]:
    """`requests` of a constraint or a configuration: each a request of the claim, once."""

    def reference(name: str, here: str) -> Iterator[Problem]:
        return reference_problems(name, here, names)

    listed = strings(value, "requests")
    yield from each_once(listed, MOST_REQUESTS, reference, f"{path}.requests", str)


def reference_problems(name: str, path: str, names: RequestNames) -> Iterator[Problem]:
    """`gpu`, or `gpu/large` for one of its alternatives."""
    parts = name.split("/")
    if len(parts) > 2:
        yield invalid_value(path, name, _NO_SUCH_REQUEST)
        return
    for part in parts:
        yield from short_name(part, path)
    known = parts[0] in names and (len(parts) == 1 or parts[1] in names[parts[0]])
    if not known:
        yield invalid_value(path, name, _NO_SUCH_REQUEST)


def configuration_problems(value: JsonObject, path: str) -> Iterator[Problem]:
    """Parameters that only a driver understands."""
    opaque: JsonObject | None = value.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")
    yield from raw_problems(opaque.get("parameters"), f"{path}.opaque.parameters")


def raw_problems(value: object, path: str) -> Iterator[Problem]:
    """An object of any form, of limited size."""
    if value is None:
        yield required(path)
    elif len(msgspec.json.encode(value)) > _LONGEST_PARAMETERS:
        yield too_long(path, _LONGEST_PARAMETERS)
    elif not isinstance(value, dict):
        yield invalid_value(path, "<value omitted>", "must be a valid JSON object")
