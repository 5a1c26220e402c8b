"""Validation of a claim's status: allocation, consumers, device statuses."""

from collections.abc import Iterator
from ipaddress import ip_interface

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
    too_long_value,
)
from kilonova.local.apimachinery.unstructured import (
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.kinds.core.node_selectors import validate_node_selector
from kilonova.local.apiserver.kinds.resource.binding_conditions import validate_binding_conditions
from kilonova.local.apiserver.kinds.resource.claim_spec_validation import (
    MAX_CONFIGURATIONS,
    MAX_REQUESTS,
    RequestNames,
    request_names,
    validate_configuration,
    validate_raw_extension,
    validate_request_reference,
    validate_request_references,
)
from kilonova.local.apiserver.kinds.resource.condition_validation import validate_conditions
from kilonova.local.apiserver.kinds.resource.name_validation import (
    validate_dns_label,
    validate_driver_name,
    validate_items,
    validate_max_items,
    validate_pool_name,
    validate_share_id,
    validate_unique_items,
)
from kilonova.local.apiserver.kinds.validation import validate_immutable

_MAX_CONSUMERS = 256
_MAX_CONDITIONS = 8
_MAX_ADDRESSES = 16
_MAX_INTERFACE_LENGTH = 256
_MAX_HARDWARE_ADDRESS_LENGTH = 128
_UNBOUNDED = 1 << 62
_SOURCES = ["FromClaim", "FromClass"]

DeviceId = tuple[str, str, str, str]
"""Driver, pool, device and share id (empty: the whole device)."""


def device_id(value: JsonObject) -> DeviceId:
    """The device of an allocation result or a device status."""
    return (
        value.get("driver", ""),
        value.get("pool", ""),
        value.get("device", ""),
        value.get("shareID") or "",
    )


def allocated_devices(claim: JsonObject) -> set[DeviceId]:
    """The devices allocated to a claim."""
    results = nested_objects(claim, "status", "allocation", "devices", "results")
    return {device_id(each) for each in results}


def validate_claim_status_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """Validate an update of a claim's status."""
    consumers = nested_objects(new, "status", "reservedFor")
    allocation = nested_value(new, "status", "allocation")
    path = "status.reservedFor"
    yield from validate_unique_items(
        consumers, _MAX_CONSUMERS, _validate_consumer, path, lambda each: each.get("uid")
    )
    if consumers:
        if allocation is None:
            yield forbidden_value(path, "may not be specified when `allocated` is not set")
        elif new["metadata"].get("deletionTimestamp"):
            known = nested_objects(old, "status", "reservedFor")
            if any(each not in known for each in consumers):
                detail = (
                    "new entries may not be added while `deallocationRequested` or "
                    "`deletionTimestamp` are set"
                )
                yield forbidden_value(path, detail)
    yield from _validate_device_statuses(new)
    if allocation is not None and nested_value(old, "status", "allocation") is not None:
        yield from validate_immutable(new, old, "status", "allocation")
    elif allocation is not None:
        names = request_names(nested_object(new, "spec"))
        yield from _validate_allocation(allocation, "status.allocation", names)


def _validate_consumer(consumer: JsonObject, path: str) -> Iterator[FieldError]:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            yield required_value(f"{path}.{field}")


def _validate_allocation(
    allocation: JsonObject, path: str, names: RequestNames
) -> Iterator[FieldError]:
    def result(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        return _validate_result(value, item_path, names)

    def configuration(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        source = value.get("source", "")
        if not source:
            yield required_value(f"{item_path}.source")
        elif source not in _SOURCES:
            yield not_supported_value(f"{item_path}.source", source, _SOURCES)
        yield from validate_request_references(value, item_path, names)
        yield from validate_configuration(value, item_path)

    results, configurations = (
        nested_objects(allocation, "devices", each) for each in _ALLOCATION_PARTS
    )
    yield from validate_items(results, MAX_REQUESTS, result, f"{path}.devices.results")
    max_items = 2 * MAX_CONFIGURATIONS
    yield from validate_items(configurations, max_items, configuration, f"{path}.devices.config")
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from validate_node_selector(selector, f"{path}.nodeSelector")


_ALLOCATION_PARTS = ("results", "config")


def _validate_result(result: JsonObject, path: str, names: RequestNames) -> Iterator[FieldError]:
    yield from validate_request_reference(result.get("request", ""), f"{path}.request", names)
    yield from _validate_device_reference(result, path)
    yield from validate_binding_conditions(result, path)


def _validate_device_reference(value: JsonObject, path: str) -> Iterator[FieldError]:
    yield from validate_driver_name(value.get("driver", ""), f"{path}.driver")
    yield from validate_pool_name(value.get("pool", ""), f"{path}.pool")
    yield from validate_dns_label(value.get("device", ""), f"{path}.device")
    if (share := value.get("shareID")) is not None:
        yield from validate_share_id(share, f"{path}.shareID")


def _validate_device_statuses(claim: JsonObject) -> Iterator[FieldError]:
    allocated = allocated_devices(claim)

    def check(value: JsonObject, item_path: str) -> Iterator[FieldError]:
        yield from _validate_device_reference(value, item_path)
        if device_id(value) not in allocated:
            formatted = dict(
                zip(("Driver", "Pool", "Device", "ShareID"), device_id(value), strict=True)
            )
            yield invalid_value(item_path, formatted, "must be an allocated device in the claim")
        conditions = nested_objects(value, "conditions")
        yield from validate_max_items(len(conditions), _MAX_CONDITIONS, f"{item_path}.conditions")
        yield from validate_conditions(conditions, f"{item_path}.conditions")
        if value.get("data") is not None:
            yield from validate_raw_extension(value["data"], f"{item_path}.data")
        yield from _validate_network_data(
            nested_object(value, "networkData"), f"{item_path}.networkData"
        )

    statuses = nested_objects(claim, "status", "devices")
    yield from validate_unique_items(statuses, _UNBOUNDED, check, "status.devices", device_id)


def _validate_network_data(data: JsonObject, path: str) -> Iterator[FieldError]:
    if len(data.get("interfaceName", "").encode()) > _MAX_INTERFACE_LENGTH:
        yield too_long_value(f"{path}.interfaceName", _MAX_INTERFACE_LENGTH)
    if len(data.get("hardwareAddress", "").encode()) > _MAX_HARDWARE_ADDRESS_LENGTH:
        yield too_long_value(f"{path}.hardwareAddress", _MAX_HARDWARE_ADDRESS_LENGTH)
    yield from validate_unique_items(
        nested_strings(data, "ips"), _MAX_ADDRESSES, _validate_address, f"{path}.ips", str
    )


def _validate_address(text: str, path: str) -> Iterator[FieldError]:
    try:
        address = ip_interface(text) if "/" in text else None
    except ValueError:
        address = None
    if address is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        yield invalid_value(path, text, detail)
    elif text != str(address):
        yield invalid_value(path, text, f'must be in canonical form ("{address}")')
