"""The status of a claim: which devices it has, who uses it, how the devices are."""

from collections.abc import Iterator
from ipaddress import ip_interface

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from kilonova.local.kinds.conditionrules import condition_problems
from kilonova.local.kinds.devicebindings import binding_problems
from kilonova.local.kinds.devicenames import (
    at_most,
    driver_name,
    each,
    each_once,
    pool_name,
    share_id,
    short_name,
)
from kilonova.local.kinds.devicerequests import (
    MOST_CONFIGURATIONS,
    MOST_REQUESTS,
    RequestNames,
    configuration_problems,
    raw_problems,
    reference_problems,
    references,
    request_names,
)
from kilonova.local.kinds.nodeselectors import node_selector_problems
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.walk import at, objects, part, strings

_MOST_CONSUMERS = 256
_MOST_CONDITIONS = 8
_MOST_ADDRESSES = 16
_LONGEST_INTERFACE = 256
_LONGEST_HARDWARE_ADDRESS = 128
_UNBOUNDED = 1 << 62
_SOURCES = ["FromClaim", "FromClass"]

DeviceId = tuple[str, str, str, str]
"""Driver, pool, device, and which share of it (empty: all of it)."""


def device_id(value: JsonObject) -> DeviceId:
    """Which device an allocation result or a device status is about."""
    return (
        value.get("driver", ""),
        value.get("pool", ""),
        value.get("device", ""),
        value.get("shareID") or "",
    )


def allocated_devices(claim: JsonObject) -> set[DeviceId]:
    """The devices that a claim has."""
    results = objects(claim, "status", "allocation", "devices", "results")
    return {device_id(each) for each in results}


def status_problems(new: JsonObject, old: JsonObject) -> Iterator[Problem]:
    """What is wrong with a change of a claim's status."""
    consumers = objects(new, "status", "reservedFor")
    allocation = at(new, "status", "allocation")
    path = "status.reservedFor"
    yield from each_once(consumers, _MOST_CONSUMERS, _consumer, path, lambda each: each.get("uid"))
    if consumers:
        if allocation is None:
            yield forbidden_field(path, "may not be specified when `allocated` is not set")
        elif new["metadata"].get("deletionTimestamp"):
            known = objects(old, "status", "reservedFor")
            if any(each not in known for each in consumers):
                detail = (
                    "new entries may not be added while `deallocationRequested` or "
                    "`deletionTimestamp` are set"
                )
                yield forbidden_field(path, detail)
    yield from _device_statuses(new)
    if allocation is not None and at(old, "status", "allocation") is not None:
        yield from immutable(new, old, "status", "allocation")
    elif allocation is not None:
        names = request_names(part(new, "spec"))
        yield from _allocation(allocation, "status.allocation", names)


def _consumer(consumer: JsonObject, path: str) -> Iterator[Problem]:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            yield required(f"{path}.{field}")


def _allocation(allocation: JsonObject, path: str, names: RequestNames) -> Iterator[Problem]:
    def result(value: JsonObject, here: str) -> Iterator[Problem]:
        return _result(value, here, names)

    def configuration(value: JsonObject, here: str) -> Iterator[Problem]:
        source = value.get("source", "")
        if not source:
            yield required(f"{here}.source")
        elif source not in _SOURCES:
            yield not_supported(f"{here}.source", source, _SOURCES)
        yield from references(value, here, names)
        yield from configuration_problems(value, here)

    results, configurations = (objects(allocation, "devices", each) for each in _PARTS)
    yield from each(results, MOST_REQUESTS, result, f"{path}.devices.results")
    most = 2 * MOST_CONFIGURATIONS
    yield from each(configurations, most, configuration, f"{path}.devices.config")
    if (selector := allocation.get("nodeSelector")) is not None:
        yield from node_selector_problems(selector, f"{path}.nodeSelector")


_PARTS = ("results", "config")


def _result(result: JsonObject, path: str, names: RequestNames) -> Iterator[Problem]:
    yield from reference_problems(result.get("request", ""), f"{path}.request", names)
    yield from _device(result, path)
    yield from binding_problems(result, path)


def _device(value: JsonObject, path: str) -> Iterator[Problem]:
    yield from driver_name(value.get("driver", ""), f"{path}.driver")
    yield from pool_name(value.get("pool", ""), f"{path}.pool")
    yield from short_name(value.get("device", ""), f"{path}.device")
    if (share := value.get("shareID")) is not None:
        yield from share_id(share, f"{path}.shareID")


def _device_statuses(claim: JsonObject) -> Iterator[Problem]:
    allocated = allocated_devices(claim)

    def check(value: JsonObject, here: str) -> Iterator[Problem]:
        yield from _device(value, here)
        if device_id(value) not in allocated:
            shown = dict(
                zip(("Driver", "Pool", "Device", "ShareID"), device_id(value), strict=True)
            )
            yield invalid_value(here, shown, "must be an allocated device in the claim")
        conditions = objects(value, "conditions")
        yield from at_most(len(conditions), _MOST_CONDITIONS, f"{here}.conditions")
        yield from condition_problems(conditions, f"{here}.conditions")
        if value.get("data") is not None:
            yield from raw_problems(value["data"], f"{here}.data")
        yield from _network(part(value, "networkData"), f"{here}.networkData")

    statuses = objects(claim, "status", "devices")
    yield from each_once(statuses, _UNBOUNDED, check, "status.devices", device_id)


def _network(data: JsonObject, path: str) -> Iterator[Problem]:
    if len(data.get("interfaceName", "").encode()) > _LONGEST_INTERFACE:
        yield too_long(f"{path}.interfaceName", _LONGEST_INTERFACE)
    if len(data.get("hardwareAddress", "").encode()) > _LONGEST_HARDWARE_ADDRESS:
        yield too_long(f"{path}.hardwareAddress", _LONGEST_HARDWARE_ADDRESS)
    yield from each_once(strings(data, "ips"), _MOST_ADDRESSES, _address, f"{path}.ips", str)


def _address(text: str, path: str) -> Iterator[Problem]:
    try:
        address = ip_interface(text) if "/" in text else None
    except ValueError:
        address = None
    if address is None:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        yield invalid_value(path, text, detail)
    elif text != str(address):
        yield invalid_value(path, text, f'must be in canonical form ("{address}")')
