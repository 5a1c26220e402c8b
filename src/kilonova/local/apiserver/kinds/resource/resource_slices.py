"""ResourceSlices: devices that a driver publishes, on one node or on several."""

from collections.abc import Iterator, Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, string_reader
from kilonova.local.apiserver.kinds.columns import AGE, NAME, text_column
from kilonova.local.apiserver.kinds.resource.device_capacities import validate_counters
from kilonova.local.apiserver.kinds.resource.device_validation import (
    validate_device,
    validate_node_fields,
)
from kilonova.local.apiserver.kinds.resource.name_validation import (
    validate_dns_label,
    validate_driver_name,
    validate_pool_name,
    validate_unique_items,
)
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_MAX_DEVICES = 128
_MAX_DEVICES_WITH_TAINTS_OR_COUNTERS = 64
_MAX_COUNTER_SETS = 8
_IMMUTABLE_PATHS = (("spec", "pool", "name"), ("spec", "driver"), ("spec", "nodeName"))
_DISABLED_FIELDS = ("ints", "bools", "strings", "versions")
"""List-valued attributes, whose feature gate is off by default in Kubernetes 1.36."""


@register_strategy("resource.k8s.io", "ResourceSlice")
class ResourceSliceStrategy(BuiltinStrategy):
    """A part of the devices of a driver's pool."""

    returns_deleted_object = True
    has_generation = True
    columns = (
        NAME,
        text_column("Node", "spec", "nodeName"),
        text_column("Driver", "spec", "driver"),
        text_column("Pool", "spec", "pool", "name"),
        AGE,
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "spec.nodeName": string_reader("spec", "nodeName"),
        "spec.driver": string_reader("spec", "driver"),
    }

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_disabled_fields(obj)
        _set_taint_times(obj, obj["metadata"]["creationTimestamp"])

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        _drop_disabled_fields(new)
        _set_taint_times(new, _last_update_time(new))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return list(_validate_spec(nested_object(obj, "spec")))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return [
            problem for path in _IMMUTABLE_PATHS for problem in validate_immutable(new, old, *path)
        ]

    def warnings(self, obj: JsonObject) -> list[str]:
        driver = nested_object(obj, "spec").get("driver", "")
        if driver == driver.lower():
            return []
        return [
            "spec.driver: driver names should be lowercase; "
            f'"{driver}" contains uppercase characters'
        ]


def _drop_disabled_fields(obj: JsonObject) -> None:
    for device in nested_objects(obj, "spec", "devices"):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in nested_object(device, "attributes").values():
            for name in _DISABLED_FIELDS:
                attribute.pop(name, None)


def _set_taint_times(obj: JsonObject, now: str) -> None:
    for device in nested_objects(obj, "spec", "devices"):
        for taint in nested_objects(device, "taints"):
            taint.setdefault("timeAdded", now)


def _last_update_time(obj: JsonObject) -> str:
    """The time of the current write, which the managed fields contain already."""
    metadata = obj["metadata"]
    times = [each["time"] for each in nested_objects(metadata, "managedFields") if each.get("time")]
    return max(times, default=metadata["creationTimestamp"])


def _validate_spec(spec: JsonObject) -> Iterator[FieldError]:
    yield from validate_driver_name(spec.get("driver", ""), "spec.driver")
    yield from _validate_pool(nested_object(spec, "pool"), "spec.pool")
    yield from _validate_node_selection(spec)
    devices, counter_sets = nested_objects(spec, "devices"), nested_objects(spec, "sharedCounters")
    if devices and counter_sets:
        detail = "only one of `sharedCounters` or `devices` is allowed"
        yield invalid_value("spec", "", detail)
    advanced = any(each.get("taints") or each.get("consumesCounters") for each in devices)
    max_devices = _MAX_DEVICES_WITH_TAINTS_OR_COUNTERS if advanced else _MAX_DEVICES
    per_device_node_selection = bool(spec.get("perDeviceNodeSelection"))

    def device(value: JsonObject, path: str) -> Iterator[FieldError]:
        return validate_device(value, path, per_device_node_selection)

    yield from validate_unique_items(devices, max_devices, device, "spec.devices", _item_name)
    path = "spec.sharedCounters"
    yield from validate_unique_items(
        counter_sets, _MAX_COUNTER_SETS, _validate_counter_set, path, _item_name
    )


def _item_name(value: JsonObject) -> str:
    return value.get("name", "")


def _validate_pool(pool: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield invalid_value(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.generation", generation, detail)


def _validate_node_selection(spec: JsonObject) -> Iterator[FieldError]:
    """Exactly one field must select the nodes that can use the devices."""
    empty = "must be either unset or set to a non-empty string"
    set_fields = yield from validate_node_fields(spec, "spec", empty)
    selector = spec.get("nodeSelector")
    if selector is not None and len(nested_objects(selector, "nodeSelectorTerms")) != 1:
        terms = selector.get("nodeSelectorTerms")
        detail = "must have exactly one node selector term"
        yield invalid_value("spec.nodeSelector.nodeSelectorTerms", terms, detail)
    if (per_device := spec.get("perDeviceNodeSelection")) is not None:
        if per_device:
            set_fields.append("`perDeviceNodeSelection`")
        else:
            detail = "must be either unset or set to true"
            yield invalid_value("spec.perDeviceNodeSelection", per_device, detail)
    exactly_one = (
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
        "is required"
    )
    if not set_fields:
        yield required_value("spec", exactly_one)
    elif len(set_fields) > 1:
        formatted = f"{{{', '.join(set_fields)}}}"
        yield invalid_value("spec", formatted, f"{exactly_one}, but multiple fields are set")


def _validate_counter_set(value: JsonObject, path: str) -> Iterator[FieldError]:
    if value.get("name"):
        yield from validate_dns_label(value["name"], f"{path}.name")
    else:
        yield required_value(f"{path}.name")
    yield from validate_counters(value, path)
