"""From wanted endpoints to slices, with few writes: endpoints stay where they are. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.local.controllers.endpoints.objects import (
    CONTROLLER,
    HEADLESS,
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    Service,
    Slice,
)
from kilonova.local.controllers.endpoints.wanted import Ports

MOST = 100
_RESERVED = frozenset({MANAGED_BY, SERVICE_NAME, HEADLESS})


@dataclass(slots=True)
class Content:
    """What a slice should hold; `slice` is the one to change, None makes a new one."""

    family: str
    ports: Ports
    endpoints: list[Endpoint]
    slice: Slice | None = None


@dataclass(slots=True)
class Plan:
    """What to write for one Service."""

    write: list[Content] = field(default_factory=list[Content])
    delete: list[Slice] = field(default_factory=list[Slice])


def slice_labels(service: Service) -> dict[str, str]:
    """The Service's own labels, and those by which a slice is found."""
    labels = {k: v for k, v in service.metadata.labels.items() if k not in _RESERVED}
    if service.headless:
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}


def plan(
    service: Service,
    wanted: Mapping[str, Mapping[Ports, Sequence[Endpoint]]],
    existing: Sequence[Slice],
) -> Plan:
    """How to get from the existing slices to what is wanted, by family and ports."""
    result = Plan()
    mine: list[Slice] = []
    for each in existing:
        is_mine = each.belongs_to(service) and each.address_type in wanted
        (mine if is_mine else result.delete).append(each)
    for family, groups in wanted.items():
        _plan_family(service, family, groups, [s for s in mine if s.address_type == family], result)
    return result


def _plan_family(
    service: Service,
    family: str,
    groups: Mapping[Ports, Sequence[Endpoint]],
    existing: Sequence[Slice],
    result: Plan,
) -> None:
    by_ports: dict[frozenset[object], list[Slice]] = {}
    for each in existing:
        by_ports.setdefault(frozenset(each.ports or ()), []).append(each)
    new: list[Content] = []
    changed: list[Content] = []
    unused: list[Slice] = []
    kept = 0
    for ports, endpoints in groups.items():
        present = by_ports.pop(frozenset(ports), [])
        group = _arrange(service, family, ports, endpoints, present)
        new += group.new
        changed += group.changed
        unused += group.unused
        kept += group.unchanged
    unused += [each for rest in by_ports.values() for each in rest]
    if not (new or changed or kept):
        # A Service without endpoints has one empty slice, which says so.
        empty = next((each for each in unused if _is_empty(each, service)), None)
        if empty is not None:
            unused.remove(empty)
        else:
            new.append(Content(family, (), []))
    for content in new:
        content.slice = unused.pop() if unused else None
    result.write += changed + new
    result.delete += unused


@dataclass(slots=True)
class _Group:
    new: list[Content]
    changed: list[Content]
    unused: list[Slice]
    unchanged: int


def _arrange(
    service: Service,
    family: str,
    ports: Ports,
    endpoints: Sequence[Endpoint],
    existing: Sequence[Slice],
) -> _Group:
    left = {_identity(each): each for each in endpoints}
    labels = slice_labels(service)
    changed: list[Content] = []
    unchanged: list[Slice] = []
    unused: list[Slice] = []
    for each in existing:
        before = each.endpoints or ()
        after = [left.pop(key) for key in map(_identity, before) if key in left]
        if not after:
            unused.append(each)
        elif tuple(after) != before or labels != each.metadata.labels:
            changed.append(Content(family, ports, after, each))
        else:
            unchanged.append(each)
    rest = list(left.values())
    for content in sorted(changed, key=lambda each: -len(each.endpoints)):
        room = MOST - len(content.endpoints)
        content.endpoints += rest[:room]
        rest = rest[room:]
    new: list[Content] = []
    while rest:
        fitting = [each for each in unchanged if len(each.endpoints or ()) + len(rest) <= MOST]
        if fitting:
            fullest = max(fitting, key=lambda each: len(each.endpoints or ()))
            unchanged.remove(fullest)
            changed.append(Content(family, ports, [*(fullest.endpoints or ()), *rest], fullest))
            break
        new.append(Content(family, ports, rest[:MOST]))
        rest = rest[MOST:]
    return _Group(new, changed, unused, len(unchanged))


def _identity(endpoint: Endpoint) -> object:
    target = endpoint.target_ref
    return (endpoint.addresses, target.uid if target else "", endpoint.node_name)


def _is_empty(each: Slice, service: Service) -> bool:
    return not each.endpoints and not each.ports and each.metadata.labels == slice_labels(service)
