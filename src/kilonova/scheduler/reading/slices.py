"""Pools of devices, from the slices in which drivers publish them.

A pool counts when all slices of its newest generation are there. One that contradicts itself is
never complete. Devices that only work once something else has happened to them are left out.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from kilonova.api.quantity import QuantityError, from_json
from kilonova.scheduler.core.claims import Attribute, Capacity, Counter, Device, DeviceId
from kilonova.scheduler.core.inventory import ANY, Pool
from kilonova.scheduler.core.requirements import NodeTerm
from kilonova.scheduler.core.taints import Effect, Taint
from kilonova.scheduler.deviceobjects import (
    Amount,
    AttributeValue,
    CounterSet,
    DeviceCapacity,
    ResourceSlice,
    SliceDevice,
    SliceSpec,
)
from kilonova.scheduler.objects import NodeSelector
from kilonova.scheduler.reading.selectors import node_terms_of

_HARMLESS = "None"
"""The effect of a taint that only informs."""


def pool_of(slices: Iterable[ResourceSlice]) -> Pool | None:
    """One pool, from all of its slices, old and new; None if there are none."""
    known = sorted(slices, key=lambda each: each.metadata.name)
    newest = max((each.spec.pool.generation for each in known), default=None)
    specs = [each.spec for each in known if each.spec.pool.generation == newest]
    if not specs:
        return None
    nodes = frozenset(node for spec in specs for node in _nodes(spec))
    counters = dict(_counters(specs))
    devices = [device for spec in specs for device in _devices(spec)]
    complete = len(specs) == specs[0].pool.resource_slice_count
    if not complete or _contradicts_itself(specs, devices, counters):
        return Pool(complete=False, nodes=nodes)
    return Pool(tuple(devices), counters, nodes=nodes)


def billionths(amount: Amount) -> int:
    """An amount as `core` counts those of devices. What nobody can read counts as nothing: the API
    server lets none of it pass."""
    try:
        return from_json(amount).nano
    except QuantityError:
        return 0


def _nodes(spec: SliceSpec) -> Iterator[str]:
    """Nodes on which devices of a slice may be used."""
    if spec.per_device_node_selection:
        yield from (device.node_name or ANY for device in spec.devices)
    elif spec.node_name:
        yield spec.node_name
    elif spec.all_nodes or spec.node_selector is not None:
        yield ANY


def _counters(specs: Iterable[SliceSpec]) -> Iterator[tuple[Counter, int]]:
    for spec in specs:
        for each in spec.shared_counters:
            for name, counter in each.counters.items():
                yield _counter(spec, each.name, name), billionths(counter.value)


def _counter(spec: SliceSpec, set_: str, name: str) -> Counter:
    return Counter(spec.driver, spec.pool.name, set_, name)


def _devices(spec: SliceSpec) -> Iterator[Device]:
    for device in spec.devices:
        if device.binding_conditions:
            continue
        where: SliceSpec | SliceDevice = device if spec.per_device_node_selection else spec
        yield Device(
            DeviceId(spec.driver, spec.pool.name, device.name),
            where.node_name,
            _terms(where.node_selector),
            {
                name: attribute
                for name, value in device.attributes.items()
                if (attribute := _attribute(value)) is not None
            },
            {name: _capacity(each) for name, each in device.capacity.items()},
            tuple(
                Taint(taint.key, cast("Effect", taint.effect), taint.value)
                for taint in device.taints
                if taint.effect != _HARMLESS
            ),
            tuple(
                (_counter(spec, each.counter_set, name), billionths(counter.value))
                for each in device.consumes_counters
                for name, counter in each.counters.items()
            ),
            device.allow_multiple_allocations,
            device.binds_to_node,
        )


def _terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...]:
    return () if selector is None else node_terms_of(selector)


def _attribute(value: AttributeValue) -> Attribute | None:
    if value.string is not None:
        return Attribute("string", value.string)
    if value.int_ is not None:
        return Attribute("int", value.int_)
    if value.bool_ is not None:
        return Attribute("bool", value.bool_)
    return None if value.version is None else Attribute("version", value.version)


def _capacity(capacity: DeviceCapacity) -> Capacity:
    value, policy = billionths(capacity.value), capacity.request_policy
    if policy is None:
        return Capacity(value)
    valid = policy.valid_range
    return Capacity(
        value,
        _maybe(policy.default),
        _maybe(valid.min) if valid is not None else None,
        _maybe(valid.max) if valid is not None else None,
        _maybe(valid.step) if valid is not None else None,
        tuple(map(billionths, policy.valid_values)),
    )


def _maybe(amount: Amount | None) -> int | None:
    return None if amount is None else billionths(amount)


def _contradicts_itself(
    specs: list[SliceSpec], devices: list[Device], counters: dict[Counter, int]
) -> bool:
    """Whether a device is there twice, or draws on a counter that is not there."""
    sets: list[CounterSet] = [each for spec in specs for each in spec.shared_counters]
    return (
        len({each.id for each in devices}) < len(devices)
        or len({each.name for each in sets}) < len(sets)
        or any(counter not in counters for each in devices for counter, _ in each.consumes)
    )
