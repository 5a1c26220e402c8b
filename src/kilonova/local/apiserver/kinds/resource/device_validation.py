"""Validation of one device of a ResourceSlice."""

from collections.abc import Generator, Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.core.node_selectors import validate_node_selector
from kilonova.local.apiserver.kinds.resource.binding_conditions import validate_binding_conditions
from kilonova.local.apiserver.kinds.resource.claim_spec_validation import EFFECTS
from kilonova.local.apiserver.kinds.resource.device_capacities import (
    validate_attributes,
    validate_capacities,
    validate_counter_consumption,
)
from kilonova.local.apiserver.kinds.resource.name_validation import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_items,
    validate_label_key,
    validate_label_value,
)

_MAX_ATTRIBUTES_AND_CAPACITIES = 32
_MAX_TAINTS = 16
_MAX_COUNTER_SETS = 2


def validate_device(
    device: JsonObject, path: str, per_device_node_selection: bool
) -> Iterator[FieldError]:
    """Validate a device. `per_device_node_selection`: each device has its own node selection."""
    yield from validate_dns_label(device.get("name", ""), f"{path}.name")
    count = len(nested_object(device, "attributes")) + len(nested_object(device, "capacity"))
    if count > _MAX_ATTRIBUTES_AND_CAPACITIES:
        detail = (
            "the total number of attributes and capacities must not exceed "
            f"{_MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        yield invalid_value(path, count, detail)
    yield from validate_attributes(device, f"{path}.attributes")
    yield from validate_capacities(device, f"{path}.capacity")
    yield from validate_items(
        nested_objects(device, "taints"), _MAX_TAINTS, _validate_taint, f"{path}.taints"
    )
    yield from validate_counter_consumption(device, f"{path}.consumesCounters", _MAX_COUNTER_SETS)
    yield from _validate_node_selection(device, path, per_device_node_selection)
    yield from validate_binding_conditions(device, path)


def validate_node_fields(
    value: JsonObject, path: str, empty: str
) -> Generator[FieldError, None, list[str]]:
    """Validate `nodeName`, `nodeSelector` and `allNodes`; returns which of them are set.

    `empty` is the message for an empty name.
    """
    set_fields: list[str] = []
    name, selector, all = (value.get(field) for field in ("nodeName", "nodeSelector", "allNodes"))
    if name:
        set_fields.append("`nodeName`")
        yield from validate_dns_subdomain(name, f"{path}.nodeName")
    elif name is not None:
        yield invalid_value(f"{path}.nodeName", name, empty)
    if selector is not None:
        set_fields.append("`nodeSelector`")
        yield from validate_node_selector(selector, f"{path}.nodeSelector")
    if all:
        set_fields.append("`allNodes`")
    elif all is not None:
        yield invalid_value(f"{path}.allNodes", all, "must be either unset or set to true")
    return set_fields


def _validate_node_selection(
    device: JsonObject, path: str, per_device_node_selection: bool
) -> Iterator[FieldError]:
    flag = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if not per_device_node_selection:
        if any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes")):
            detail = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {flag}"
            yield invalid_value(path, None, detail)
        return
    set_fields = yield from validate_node_fields(device, path, "must not be empty")
    exactly_one = (
        f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {flag}"
    )
    if not set_fields:
        yield required_value(path, exactly_one)
    elif len(set_fields) > 1:
        yield invalid_value(path, f"{{{', '.join(set_fields)}}}", exactly_one)


def _validate_taint(taint: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_label_key(taint.get("key", ""), f"{path}.key")
    if value := taint.get("value"):
        yield from validate_label_value(value, f"{path}.value")
    effect = taint.get("effect", "")
    if not effect:
        yield required_value(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported_value(f"{path}.effect", effect, EFFECTS)
