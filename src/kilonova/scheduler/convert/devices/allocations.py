"""Allocations of ResourceClaims, in both directions."""

from collections.abc import Callable, Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.scheduler.convert.devices.resource_slices import parse_nano
from kilonova.scheduler.convert.selectors import convert_node_selector
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import AllocatedDevice, ClaimAllocation, DeviceId
from kilonova.scheduler.core.model.label_columns import NODE_NAME
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.objects.resource_v1 import (
    AllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
)

_PODS = ("", "pods")


def convert_claim_status(claim: ResourceClaim) -> PublishedAllocation | None:
    """The allocation and consumers of a claim; None if it is not allocated."""
    allocation, status = claim.status.allocation, claim.status
    if allocation is None:
        return None
    namespace = claim.metadata.namespace
    consumers = frozenset(
        f"{namespace}/{each.name}" if (each.api_group, each.resource) == _PODS else each.uid
        for each in status.reserved_for
    )
    return PublishedAllocation(convert_allocation(allocation), consumers)


def convert_allocation(result: AllocationResult) -> ClaimAllocation:
    """Convert an allocation, whichever scheduler wrote it."""
    devices = tuple(_convert_device_result(each) for each in result.devices.results)
    terms = convert_node_selector(result.node_selector) if result.node_selector is not None else ()
    only = terms[0].names if len(terms) == 1 and not terms[0].labels else ()
    if len(only) == 1 and only[0].operator == "In" and len(only[0].values) == 1:
        return ClaimAllocation(devices, only[0].values[0])
    return ClaimAllocation(devices, terms=terms)


def encode_allocation(
    claim: ResourceClaim,
    allocation: ClaimAllocation,
    find_class: Callable[[str], DeviceClass | None],
    new_share_id: Callable[[], str],
) -> JsonObject:
    """The allocation to write to a claim. Each share of a shared device gets a new id."""
    options = {
        name: option
        for request in claim.spec.devices.requests
        for name, option in request.options()
    }
    devices: JsonObject = {
        "results": [
            _encode_device_result(each, options[each.option], new_share_id)
            for each in allocation.devices
        ]
    }
    options_used = list(dict.fromkeys(device.option for device in allocation.devices))
    config = [
        *_class_configs(options_used, options, find_class),
        *_claim_configs(options_used, claim),
    ]
    if config:
        devices["config"] = config
    body: JsonObject = {"devices": devices}
    selector = _encode_node_selector(allocation)
    if selector is not None:
        body["nodeSelector"] = selector
    return body


def _convert_device_result(result: DeviceRequestAllocationResult) -> AllocatedDevice:
    return AllocatedDevice(
        result.request,
        DeviceId(result.driver, result.pool, result.device),
        bool(result.admin_access),
        tuple(
            (name, parse_nano(amount)) for name, amount in sorted(result.consumed_capacity.items())
        ),
        result.share_id or "",
    )


def _encode_device_result(
    device: AllocatedDevice, option: ExactDeviceRequest, new_share_id: Callable[[], str]
) -> JsonObject:
    result: JsonObject = {
        "request": device.option,
        "driver": device.device.driver,
        "pool": device.device.pool,
        "device": device.device.name,
    }
    if device.admin:
        result["adminAccess"] = True
    if option.tolerations:
        result["tolerations"] = list(msgspec.to_builtins(option.tolerations))
    if device.consumed:
        result["shareID"] = new_share_id()
        result["consumedCapacity"] = {
            name: str(Quantity(amount, Format.BINARY)) for name, amount in device.consumed
        }
    return result


def _class_configs(
    options_used: list[str],
    options: dict[str, ExactDeviceRequest],
    find_class: Callable[[str], DeviceClass | None],
) -> Iterator[JsonObject]:
    """The configurations of the classes in use, each once."""
    by_class: dict[str, list[str]] = {}
    for option in options_used:
        by_class.setdefault(options[option].device_class_name, []).append(option)
    for name, requests in by_class.items():
        class_ = find_class(name)
        for config in class_.spec.config if class_ is not None else ():
            yield {**config, "source": "FromClass", "requests": requests}


def _claim_configs(options_used: list[str], claim: ResourceClaim) -> Iterator[JsonObject]:
    """The configurations of a claim for the requests that were served."""
    served = {*options_used, *(option.partition("/")[0] for option in options_used)}
    for config in claim.spec.devices.config:
        requests: list[str] = config.get("requests") or []
        if not requests or served.intersection(requests):
            yield {**config, "source": "FromClaim"}


def _encode_node_selector(allocation: ClaimAllocation) -> JsonObject | None:
    terms = allocation.terms
    if allocation.node:
        terms = (NodeSelectorTerm(names=(Requirement(NODE_NAME, "In", (allocation.node,)),)),)
    if not terms:
        return None
    return {"nodeSelectorTerms": [_encode_term(term) for term in terms]}


def _encode_term(term: NodeSelectorTerm) -> JsonObject:
    parts = (("matchExpressions", term.labels), ("matchFields", term.names))
    return {
        name: [_encode_requirement(each) for each in requirements]
        for name, requirements in parts
        if requirements
    }


def _encode_requirement(requirement: Requirement) -> JsonObject:
    body: JsonObject = {"key": requirement.key, "operator": requirement.operator}
    return {**body, "values": list(requirement.values)} if requirement.values else body
