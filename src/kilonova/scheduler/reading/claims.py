"""What the claims of a pod ask for.

A pod waits until its claims are there: those that are made for it from templates, and those that
others make. Claims that have devices already, or that several pods may use, are known by name.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from kilonova.api.meta import shared
from kilonova.scheduler.core.claims import (
    ALL,
    MOST_CONSUMERS,
    MOST_DEVICES,
    ClaimAsk,
    Constraint,
    Option,
)
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.taints import Toleration
from kilonova.scheduler.deviceobjects import (
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    ExactRequest,
    ResourceClaim,
)
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.cel import SelectorError, check
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.slices import billionths

FindClaim = Callable[[str], ResourceClaim | None]
"""The claim of a key, NAMESPACE/NAME."""
FindClass = Callable[[str], DeviceClass | None]

ANY_OF_CLASS = "deviceclass.resource.kubernetes.io/"
"""How a resource is called that stands for any device of a class."""


class NoClaim(Misread):
    """A claim of a pod that is not there, or can not be used by it."""

    reason = "ClaimNotReady"


def claim_keys(pod: Pod) -> list[str]:
    """The claims that a pod is known to use, each once, by their keys; that of its extended
    resources comes last."""
    keys = dict.fromkeys(key for key, _ in _named(pod) if key)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        keys[f"{pod.metadata.namespace}/{extended.resource_claim_name}"] = None
    return list(keys)


def claimed(pod: Pod, member: Member, find: FindClaim, find_class: FindClass) -> Member:
    """A pod that asks for the devices of its claims, too; `NoClaim` if it has to wait for one,
    `Misread` if one of them can not be understood."""
    if not pod.spec.resource_claims:
        return member
    asks: dict[str, ClaimAsk] = {}
    for (key, generated), wanted in zip(_named(pod), pod.spec.resource_claims, strict=True):
        if key is None:
            raise NoClaim(*_field(wanted.name), "is not made yet from its template")
        if key:
            asks[key] = _ask(pod, key, wanted.name, generated, find, find_class)
    shape = shared(replace(member.shape, claims=tuple(asks.values())))
    return replace(member, shape=shape, claims=tuple(asks))


def _named(pod: Pod) -> Iterator[tuple[str | None, bool]]:
    """The key of each claim of a pod, and whether it is made for the pod alone. None while it is
    not made; empty if none is needed after all."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for wanted in pod.spec.resource_claims:
        name = wanted.resource_claim_name
        if name is not None:
            yield f"{pod.metadata.namespace}/{name}", False
        elif wanted.name not in made:
            yield None, True
        else:
            name = made[wanted.name]
            yield f"{pod.metadata.namespace}/{name}" if name else "", True


def _field(claim: str) -> tuple[str, str]:
    return "spec.resourceClaims", claim


def _ask(
    pod: Pod, key: str, name: str, generated: bool, find: FindClaim, find_class: FindClass
) -> ClaimAsk:
    claim = find(key)
    if claim is None:
        raise NoClaim(*_field(name), f"is claim {key}, which is not there")
    if claim.metadata.deletion_timestamp is not None:
        raise NoClaim(*_field(name), f"is claim {key}, which is being deleted")
    owner = claim.metadata.controller
    if generated and (owner is None or owner.uid != pod.metadata.uid):
        raise NoClaim(*_field(name), f"is claim {key}, which was not made for this pod")
    full = len(claim.status.reserved_for) >= MOST_CONSUMERS
    if full and not claim.is_reserved_for(pod.metadata.uid):
        raise NoClaim(*_field(name), f"is claim {key}, which {MOST_CONSUMERS} pods use already")
    known = claim.status.allocation is not None or not generated
    devices = claim.spec.devices
    return ClaimAsk(
        tuple(
            tuple(option_of(key, name, each, find_class) for name, each in request.options())
            for request in devices.requests
        ),
        tuple(_constraint(key, each) for each in devices.constraints),
        key if known else "",
    )


def option_of(claim: str, name: str, request: ExactRequest, find_class: FindClass) -> Option:
    """Devices of one class that would do for a request of a claim."""
    where = f"claim {claim}, request {name}"
    class_ = find_class(request.device_class_name)
    if class_ is None:
        raise NoClaim(where, request.device_class_name, "is no DeviceClass that is there")
    if request.allocation_mode not in ("ExactCount", "All"):
        problem = "is no way to count devices that is known here: use ExactCount or All"
        raise Misread(where, request.allocation_mode, problem)
    if request.count > MOST_DEVICES:
        problem = f"is more than fits into a claim: at most {MOST_DEVICES}"
        raise Misread(where, str(request.count), problem)
    selectors = (*class_.spec.selectors, *request.selectors)
    return Option(
        name,
        tuple(_expression(where, each) for each in selectors),
        ALL if request.allocation_mode == "All" else request.count,
        request.admin_access,
        tuple(
            Toleration(
                each.key,
                "Exists" if each.operator == "Exists" else "Equal",
                each.value,
                each.effect,
            )
            for each in request.tolerations
        ),
        tuple(
            (name, billionths(amount)) for name, amount in sorted(request.capacity.requests.items())
        )
        if request.capacity is not None
        else (),
        class_.spec.extended_resource_name or f"{ANY_OF_CLASS}{request.device_class_name}",
    )


def _expression(where: str, selector: DeviceSelector) -> str:
    if selector.cel is None:
        raise Misread(where, "selectors", "have one that is not in CEL: others are not known here")
    expression = selector.cel.expression
    try:
        check(expression)
    except SelectorError as error:
        raise Misread(where, expression, f"can not be evaluated: {error}") from None
    return expression


def _constraint(claim: str, constraint: DeviceConstraint) -> Constraint:
    if constraint.match_attribute is not None:
        return Constraint(constraint.match_attribute, constraint.requests)
    if constraint.distinct_attribute is not None:
        return Constraint(constraint.distinct_attribute, constraint.requests, distinct=True)
    problem = "have one of a kind that is not known here: use matchAttribute or distinctAttribute"
    raise Misread(f"claim {claim}", "constraints", problem)
