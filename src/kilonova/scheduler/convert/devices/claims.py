"""Device requests of a pod's ResourceClaims.

A pod waits until its claims exist, whether created from templates or by users. Claims that are
allocated, or that several pods may use, are identified by key.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from kilonova.api.meta import intern_value
from kilonova.scheduler.convert.devices.cel_selectors import SelectorError, check_expression
from kilonova.scheduler.convert.devices.resource_slices import parse_nano
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.core.dra.claims import (
    ALL_DEVICES,
    MAX_CONSUMERS,
    MAX_DEVICES_PER_CLAIM,
    AttributeConstraint,
    ClaimRequest,
    DeviceRequestOption,
)
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.taints import Toleration
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.resource_v1 import (
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
)

FindClaim = Callable[[str], ResourceClaim | None]
"""The claim of a key, NAMESPACE/NAME."""
FindClass = Callable[[str], DeviceClass | None]

IMPLICIT_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
"""The prefix of the implicit extended resource of a DeviceClass."""


class ClaimNotReady(InvalidRequest):
    """A claim of a pod does not exist, or the pod cannot use it."""

    reason = "ClaimNotReady"


def pod_claim_keys(pod: Pod) -> list[str]:
    """The keys of a pod's known claims, each once; the claim of its extended resources comes
    last."""
    keys = dict.fromkeys(key for key, _ in _claim_references(pod) if key)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        keys[f"{pod.metadata.namespace}/{extended.resource_claim_name}"] = None
    return list(keys)


def with_claims(pod: Pod, member: Member, find_claim: FindClaim, find_class: FindClass) -> Member:
    """A pod with the requests of its claims; raises `ClaimNotReady` if it waits for one,
    `InvalidRequest` if one of them is invalid."""
    if not pod.spec.resource_claims:
        return member
    claim_requests: dict[str, ClaimRequest] = {}
    for (key, generated), pod_claim in zip(
        _claim_references(pod), pod.spec.resource_claims, strict=True
    ):
        if key is None:
            raise ClaimNotReady(
                *_claim_field(pod_claim.name), "is not yet created from its template"
            )
        if key:
            claim_requests[key] = _convert_claim(
                pod, key, pod_claim.name, generated, find_claim, find_class
            )
    shape = intern_value(replace(member.shape, claims=tuple(claim_requests.values())))
    return replace(member, shape=shape, claims=tuple(claim_requests))


def _claim_references(pod: Pod) -> Iterator[tuple[str | None, bool]]:
    """The key of each claim of a pod, and whether it was generated for the pod. The key is None
    before it is created, and empty if none is needed."""
    generated_names = {
        each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses
    }
    for pod_claim in pod.spec.resource_claims:
        name = pod_claim.resource_claim_name
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}", False
        elif pod_claim.name not in generated_names:
            yield None, True
        else:
            name = generated_names[pod_claim.name]
            yield f"{pod.metadata.namespace}/{name}" if name else "", True


def _claim_field(claim: str) -> tuple[str, str]:
    return "spec.resourceClaims", claim


def _convert_claim(
    pod: Pod, key: str, name: str, generated: bool, find_claim: FindClaim, find_class: FindClass
) -> ClaimRequest:
    claim = find_claim(key)
    if claim is None:
        raise ClaimNotReady(*_claim_field(name), f"is claim {key}, which does not exist")
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimNotReady(*_claim_field(name), f"is claim {key}, which is being deleted")
    owner = claim.metadata.controller
    if generated and (owner is None or owner.uid != pod.metadata.uid):
        raise ClaimNotReady(
            *_claim_field(name), f"is claim {key}, which was not created for this pod"
        )
    has_max_consumers = len(claim.status.reserved_for) >= MAX_CONSUMERS
    if has_max_consumers and not claim.is_reserved_for(pod.metadata.uid):
        raise ClaimNotReady(
            *_claim_field(name), f"is claim {key}, which {MAX_CONSUMERS} pods already consume"
        )
    has_identity = claim.status.allocation is not None or not generated
    devices = claim.spec.devices
    return ClaimRequest(
        tuple(
            tuple(
                convert_device_request(key, name, each, find_class)
                for name, each in request.options()
            )
            for request in devices.requests
        ),
        tuple(_convert_constraint(key, each) for each in devices.constraints),
        key if has_identity else "",
    )


def convert_device_request(
    claim: str, name: str, request: ExactDeviceRequest, find_class: FindClass
) -> DeviceRequestOption:
    """A request for devices of one class, as an option of a claim's request."""
    field = f"claim {claim}, request {name}"
    class_ = find_class(request.device_class_name)
    if class_ is None:
        raise ClaimNotReady(field, request.device_class_name, "is not an existing DeviceClass")
    if request.allocation_mode not in ("ExactCount", "All"):
        problem = "is an unsupported allocation mode: use ExactCount or All"
        raise InvalidRequest(field, request.allocation_mode, problem)
    if request.count > MAX_DEVICES_PER_CLAIM:
        problem = f"exceeds the limit of a claim: at most {MAX_DEVICES_PER_CLAIM}"
        raise InvalidRequest(field, str(request.count), problem)
    selectors = (*class_.spec.selectors, *request.selectors)
    return DeviceRequestOption(
        name,
        tuple(_checked_expression(field, each) for each in selectors),
        ALL_DEVICES if request.allocation_mode == "All" else request.count,
        request.admin_access,
        tuple(
            Toleration(each.key, each.operator, each.value, each.effect)
            for each in request.tolerations
        ),
        tuple(
            (name, parse_nano(amount)) for name, amount in sorted(request.capacity.requests.items())
        )
        if request.capacity is not None
        else (),
        class_.spec.extended_resource_name
        or f"{IMPLICIT_RESOURCE_PREFIX}{request.device_class_name}",
    )


def _checked_expression(field: str, selector: DeviceSelector) -> str:
    if selector.cel is None:
        raise InvalidRequest(
            field, "selectors", "contain one that is not CEL, which is not supported"
        )
    expression = selector.cel.expression
    try:
        check_expression(expression)
    except SelectorError as error:
        raise InvalidRequest(field, expression, f"cannot be evaluated: {error}") from None
    return expression


def _convert_constraint(claim: str, constraint: DeviceConstraint) -> AttributeConstraint:
    if constraint.match_attribute is not None:
        return AttributeConstraint(constraint.match_attribute, constraint.requests)
    if constraint.distinct_attribute is not None:
        return AttributeConstraint(
            constraint.distinct_attribute, constraint.requests, distinct=True
        )
    problem = "contain an unsupported one: use matchAttribute or distinctAttribute"
    raise InvalidRequest(f"claim {claim}", "constraints", problem)
