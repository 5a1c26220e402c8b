"""Allocations, from and to the form that the API has for them."""

from collections.abc import Callable, Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Format, Quantity
from kilonova.scheduler.core.claimbook import Written
from kilonova.scheduler.core.claims import Allocation, DeviceId, Given
from kilonova.scheduler.core.labels import NAME
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.deviceobjects import (
    AllocationResult,
    DeviceClass,
    DeviceResult,
    ExactRequest,
    ResourceClaim,
)
from kilonova.scheduler.reading.selectors import node_terms_of
from kilonova.scheduler.reading.slices import billionths

_PODS = ("", "pods")


def written_of(claim: ResourceClaim) -> Written | None:
    """What a claim has; None if it has nothing."""
    allocation, status = claim.status.allocation, claim.status
    if allocation is None:
        return None
    namespace = claim.metadata.namespace
    consumers = frozenset(
        f"{namespace}/{each.name}" if (each.api_group, each.resource) == _PODS else each.uid
        for each in status.reserved_for
    )
    return Written(allocation_of(allocation), consumers)


def allocation_of(result: AllocationResult) -> Allocation:
    """What was allocated, by whomever."""
    devices = tuple(_given(each) for each in result.devices.results)
    terms = node_terms_of(result.node_selector) if result.node_selector is not None else ()
    only = terms[0].names if len(terms) == 1 and not terms[0].labels else ()
    if len(only) == 1 and only[0].operator == "In" and len(only[0].values) == 1:
        return Allocation(devices, only[0].values[0])
    return Allocation(devices, terms=terms)


def allocation_body(
    claim: ResourceClaim,
    allocation: Allocation,
    find_class: Callable[[str], DeviceClass | None],
    new_share: Callable[[], str],
) -> JsonObject:
    """What is written to a claim that gets its devices. Each part of a shared device is new."""
    options = {
        name: option
        for request in claim.spec.devices.requests
        for name, option in request.options()
    }
    devices: JsonObject = {
        "results": [_result(each, options[each.option], new_share) for each in allocation.devices]
    }
    chosen = list(dict.fromkeys(given.option for given in allocation.devices))
    config = [
        *_class_config(chosen, options, find_class),
        *_claim_config(chosen, claim),
    ]
    if config:
        devices["config"] = config
    body: JsonObject = {"devices": devices}
    selector = _node_selector(allocation)
    if selector is not None:
        body["nodeSelector"] = selector
    return body


def _given(result: DeviceResult) -> Given:
    return Given(
        result.request,
        DeviceId(result.driver, result.pool, result.device),
        bool(result.admin_access),
        tuple(
            (name, billionths(amount)) for name, amount in sorted(result.consumed_capacity.items())
        ),
        result.share_id or "",
    )


def _result(given: Given, option: ExactRequest, new_share: Callable[[], str]) -> JsonObject:
    result: JsonObject = {
        "request": given.option,
        "driver": given.device.driver,
        "pool": given.device.pool,
        "device": given.device.name,
    }
    if given.admin:
        result["adminAccess"] = True
    if option.tolerations:
        result["tolerations"] = list(msgspec.to_builtins(option.tolerations))
    if given.consumed:
        result["shareID"] = new_share()
        result["consumedCapacity"] = {
            name: str(Quantity(amount, Format.BINARY)) for name, amount in given.consumed
        }
    return result


def _class_config(
    chosen: list[str],
    options: dict[str, ExactRequest],
    find_class: Callable[[str], DeviceClass | None],
) -> Iterator[JsonObject]:
    """How classes want their devices to be set up, each once."""
    by_class: dict[str, list[str]] = {}
    for option in chosen:
        by_class.setdefault(options[option].device_class_name, []).append(option)
    for name, requests in by_class.items():
        class_ = find_class(name)
        for config in class_.spec.config if class_ is not None else ():
            yield {**config, "source": "FromClass", "requests": requests}


def _claim_config(chosen: list[str], claim: ResourceClaim) -> Iterator[JsonObject]:
    """How a claim wants devices of the requests that were served to be set up."""
    served = {*chosen, *(option.partition("/")[0] for option in chosen)}
    for config in claim.spec.devices.config:
        requests: list[str] = config.get("requests") or []
        if not requests or served.intersection(requests):
            yield {**config, "source": "FromClaim"}


def _node_selector(allocation: Allocation) -> JsonObject | None:
    terms = allocation.terms
    if allocation.node:
        terms = (NodeTerm(names=(Requirement(NAME, "In", (allocation.node,)),)),)
    if not terms:
        return None
    return {"nodeSelectorTerms": [_term(term) for term in terms]}


def _term(term: NodeTerm) -> JsonObject:
    parts = (("matchExpressions", term.labels), ("matchFields", term.names))
    return {
        name: [_requirement(each) for each in requirements]
        for name, requirements in parts
        if requirements
    }


def _requirement(requirement: Requirement) -> JsonObject:
    body: JsonObject = {"key": requirement.key, "operator": requirement.operator}
    return {**body, "values": list(requirement.values)} if requirement.values else body
