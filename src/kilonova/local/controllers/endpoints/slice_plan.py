"""Distributes endpoints to slices with few writes: endpoints stay in their slice. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.local.controllers.endpoints.desired_endpoints import Ports
from kilonova.local.controllers.endpoints.objects import (
    CONTROLLER_NAME,
    HEADLESS_LABEL,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
    Service,
)

MAX_ENDPOINTS_PER_SLICE = 100
_RESERVED_LABELS = frozenset({MANAGED_BY_LABEL, SERVICE_NAME_LABEL, HEADLESS_LABEL})


@dataclass(slots=True)
class SliceContent:
    """The desired content of a slice; `slice` is the one to change, None creates a new one."""

    family: str
    ports: Ports
    endpoints: list[Endpoint]
    slice: EndpointSlice | None = None


@dataclass(slots=True)
class SlicePlan:
    """The writes for one Service."""

    write: list[SliceContent] = field(default_factory=list[SliceContent])
    delete: list[EndpointSlice] = field(default_factory=list[EndpointSlice])


def build_slice_labels(service: Service) -> dict[str, str]:
    """The Service's own labels, and those by which a slice is found."""
    labels = {k: v for k, v in service.metadata.labels.items() if k not in _RESERVED_LABELS}
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    return {**labels, SERVICE_NAME_LABEL: service.metadata.name, MANAGED_BY_LABEL: CONTROLLER_NAME}


def plan_slices(
    service: Service,
    desired: Mapping[str, Mapping[Ports, Sequence[Endpoint]]],
    existing: Sequence[EndpointSlice],
) -> SlicePlan:
    """The changes from the existing slices to the desired ones, by family and ports."""
    result = SlicePlan()
    mine: list[EndpointSlice] = []
    for each in existing:
        is_mine = each.belongs_to(service) and each.address_type in desired
        (mine if is_mine else result.delete).append(each)
    for family, groups in desired.items():
        _plan_family(service, family, groups, [s for s in mine if s.address_type == family], result)
    return result


def _plan_family(
    service: Service,
    family: str,
    groups: Mapping[Ports, Sequence[Endpoint]],
    existing: Sequence[EndpointSlice],
    result: SlicePlan,
) -> None:
    by_ports: dict[frozenset[object], list[EndpointSlice]] = {}
    for each in existing:
        by_ports.setdefault(frozenset(each.ports or ()), []).append(each)
    new: list[SliceContent] = []
    changed: list[SliceContent] = []
    unused: list[EndpointSlice] = []
    remaining = 0
    for ports, endpoints in groups.items():
        present = by_ports.pop(frozenset(ports), [])
        group = _plan_port_group(service, family, ports, endpoints, present)
        new += group.new
        changed += group.changed
        unused += group.unused
        remaining += group.unchanged
    unused += [each for rest in by_ports.values() for each in rest]
    if not (new or changed or remaining):
        # A Service without endpoints has one empty slice, as in Kubernetes.
        empty = next((each for each in unused if _is_empty(each, service)), None)
        if empty is not None:
            unused.remove(empty)
        else:
            new.append(SliceContent(family, (), []))
    for content in new:
        content.slice = unused.pop() if unused else None
    result.write += changed + new
    result.delete += unused


@dataclass(slots=True)
class _PortGroupPlan:
    new: list[SliceContent]
    changed: list[SliceContent]
    unused: list[EndpointSlice]
    unchanged: int


def _plan_port_group(
    service: Service,
    family: str,
    ports: Ports,
    endpoints: Sequence[Endpoint],
    existing: Sequence[EndpointSlice],
) -> _PortGroupPlan:
    left = {_endpoint_key(each): each for each in endpoints}
    labels = build_slice_labels(service)
    changed: list[SliceContent] = []
    unchanged: list[EndpointSlice] = []
    unused: list[EndpointSlice] = []
    for each in existing:
        before = each.endpoints or ()
        after = [left.pop(key) for key in map(_endpoint_key, before) if key in left]
        if not after:
            unused.append(each)
        elif tuple(after) != before or labels != each.metadata.labels:
            changed.append(SliceContent(family, ports, after, each))
        else:
            unchanged.append(each)
    rest = list(left.values())
    for content in sorted(changed, key=lambda each: -len(each.endpoints)):
        capacity = MAX_ENDPOINTS_PER_SLICE - len(content.endpoints)
        content.endpoints += rest[:capacity]
        rest = rest[capacity:]
    new: list[SliceContent] = []
    while rest:
        fitting = [
            each
            for each in unchanged
            if len(each.endpoints or ()) + len(rest) <= MAX_ENDPOINTS_PER_SLICE
        ]
        if fitting:
            fullest = max(fitting, key=lambda each: len(each.endpoints or ()))
            unchanged.remove(fullest)
            changed.append(
                SliceContent(family, ports, [*(fullest.endpoints or ()), *rest], fullest)
            )
            break
        new.append(SliceContent(family, ports, rest[:MAX_ENDPOINTS_PER_SLICE]))
        rest = rest[MAX_ENDPOINTS_PER_SLICE:]
    return _PortGroupPlan(new, changed, unused, len(unchanged))


def _endpoint_key(endpoint: Endpoint) -> object:
    target = endpoint.target_ref
    return (endpoint.addresses, target.uid if target else "", endpoint.node_name)


def _is_empty(each: EndpointSlice, service: Service) -> bool:
    return (
        not each.endpoints
        and not each.ports
        and each.metadata.labels == build_slice_labels(service)
    )
