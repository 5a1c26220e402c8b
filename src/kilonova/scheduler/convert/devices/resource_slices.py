"""Device pools from ResourceSlices.

A pool is complete when all slices of its newest generation exist. An inconsistent pool is never
complete. Devices that need a binding condition before use are left out.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from kilonova.api.quantity import QuantityError, quantity_from_json
from kilonova.scheduler.convert.devices.gpu_references import find_gpu_reference
from kilonova.scheduler.convert.selectors import convert_node_selector
from kilonova.scheduler.core.dra.claims import (
    ConsumableCapacity,
    Device,
    DeviceAttribute,
    DeviceId,
    SharedCounter,
)
from kilonova.scheduler.core.dra.inventory import ANY_NODE, DevicePool
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm
from kilonova.scheduler.core.model.taints import Effect, Taint
from kilonova.scheduler.objects.core_v1 import NodeSelector
from kilonova.scheduler.objects.resource_v1 import (
    Amount,
    AttributeValue,
    CounterSet,
    DeviceCapacity,
    ResourceSlice,
    ResourceSliceSpec,
    SliceDevice,
)

_NO_EFFECT = "None"
"""The effect of a taint that is only informational."""


def convert_resource_pool(slices: Iterable[ResourceSlice]) -> DevicePool | None:
    """The pool of all its slices, old and new; None if there are none."""
    sorted_slices = sorted(slices, key=lambda each: each.metadata.name)
    newest = max((each.spec.pool.generation for each in sorted_slices), default=None)
    specs = [each.spec for each in sorted_slices if each.spec.pool.generation == newest]
    if not specs:
        return None
    nodes = frozenset(node for spec in specs for node in _slice_nodes(spec))
    counters = dict(_shared_counters(specs))
    devices = [device for spec in specs for device in _convert_devices(spec)]
    complete = len(specs) == specs[0].pool.resource_slice_count
    if not complete or _is_inconsistent(specs, devices, counters):
        return DevicePool(complete=False, nodes=nodes)
    return DevicePool(tuple(devices), counters, nodes=nodes)


def parse_nano(amount: Amount) -> int:
    """An amount in nano-units. An invalid quantity counts as 0: the API server accepts none."""
    try:
        return quantity_from_json(amount).nano
    except QuantityError:
        return 0


def _slice_nodes(spec: ResourceSliceSpec) -> Iterator[str]:
    """Nodes on which the devices of a slice are usable."""
    if spec.per_device_node_selection:
        yield from (device.node_name or ANY_NODE for device in spec.devices)
    elif spec.node_name:
        yield spec.node_name
    elif spec.all_nodes or spec.node_selector is not None:
        yield ANY_NODE


def _shared_counters(specs: Iterable[ResourceSliceSpec]) -> Iterator[tuple[SharedCounter, int]]:
    for spec in specs:
        for each in spec.shared_counters:
            for name, counter in each.counters.items():
                yield _counter_id(spec, each.name, name), parse_nano(counter.value)


def _counter_id(spec: ResourceSliceSpec, set_: str, name: str) -> SharedCounter:
    return SharedCounter(spec.driver, spec.pool.name, set_, name)


def _convert_devices(spec: ResourceSliceSpec) -> Iterator[Device]:
    for device in spec.devices:
        if device.binding_conditions:
            continue
        where: ResourceSliceSpec | SliceDevice = device if spec.per_device_node_selection else spec
        attributes = {
            name: attribute
            for name, value in device.attributes.items()
            if (attribute := _convert_attribute(value)) is not None
        }
        consumes = tuple(
            (_counter_id(spec, each.counter_set, name), parse_nano(counter.value))
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        )
        yield Device(
            DeviceId(spec.driver, spec.pool.name, device.name),
            where.node_name,
            _convert_terms(where.node_selector),
            attributes,
            {name: _convert_capacity(each) for name, each in device.capacity.items()},
            tuple(
                Taint(taint.key, cast("Effect", taint.effect), taint.value)
                for taint in device.taints
                if taint.effect != _NO_EFFECT
            ),
            consumes,
            device.allow_multiple_allocations,
            device.binds_to_node,
            find_gpu_reference(spec.driver, device.name, attributes, consumes),
        )


def _convert_terms(selector: NodeSelector | None) -> tuple[NodeSelectorTerm, ...]:
    return () if selector is None else convert_node_selector(selector)


def _convert_attribute(value: AttributeValue) -> DeviceAttribute | None:
    if value.string is not None:
        return DeviceAttribute("string", value.string)
    if value.int_ is not None:
        return DeviceAttribute("int", value.int_)
    if value.bool_ is not None:
        return DeviceAttribute("bool", value.bool_)
    return None if value.version is None else DeviceAttribute("version", value.version)


def _convert_capacity(capacity: DeviceCapacity) -> ConsumableCapacity:
    value, policy = parse_nano(capacity.value), capacity.request_policy
    if policy is None:
        return ConsumableCapacity(value)
    valid = policy.valid_range
    return ConsumableCapacity(
        value,
        _parse_optional_nano(policy.default),
        _parse_optional_nano(valid.min) if valid is not None else None,
        _parse_optional_nano(valid.max) if valid is not None else None,
        _parse_optional_nano(valid.step) if valid is not None else None,
        tuple(map(parse_nano, policy.valid_values)),
    )


def _parse_optional_nano(amount: Amount | None) -> int | None:
    return None if amount is None else parse_nano(amount)


def _is_inconsistent(
    specs: list[ResourceSliceSpec], devices: list[Device], counters: dict[SharedCounter, int]
) -> bool:
    """Whether a device is listed twice, or consumes a counter that does not exist."""
    sets: list[CounterSet] = [each for spec in specs for each in spec.shared_counters]
    return (
        len({each.id for each in devices}) < len(devices)
        or len({each.name for each in sets}) < len(sets)
        or any(counter not in counters for each in devices for counter, _ in each.consumes)
    )
