"""GPUs as devices of ResourceSlices, in the encoding of NVIDIA's DRA driver. Pure.

Each GPU is a device, `gpu-0`, and so is every MIG instance that it could have,
`gpu-0-mig-3g40gb-9-4`. A GPU has a counter for each of its memory slices: an instance consumes
those that it would occupy, the whole GPU consumes all, and so a scheduler finds out what can exist
beside what. The slices of a node are one pool: first the counters, then the devices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kilonova.api.json import JsonObject

MEDIA_COUNTER = "media-extensions"
"""The counter that instances with media extensions consume: a GPU has them once."""
MAX_DEVICES = 128
MAX_DEVICES_WITH_COUNTERS = 64
"""Of a ResourceSlice; also with taints."""
MAX_COUNTER_SETS = 8
PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
_DOUBLE_MEMORY_ID = 15
_EXTENDED_ID = 20
_PROFILE_IDS = {1: 19, 2: 14, 3: 9, 4: 5, 7: 0}
"""GPU instance profile ids by compute slices."""


def gpu_device_name(index: int) -> str:
    """The device of a whole GPU."""
    return f"gpu-{index}"


def mig_device_name(
    index: int, profile: str, start: int, *, compute: int, slices: int, extended: bool = False
) -> str:
    """The device of a MIG instance; its profile has so many compute and memory slices."""
    number = _PROFILE_IDS.get(compute, _DOUBLE_MEMORY_ID)
    if compute == 1 and slices > 1:
        number = _DOUBLE_MEMORY_ID
    elif extended:
        number = _EXTENDED_ID
    short = profile.lower().replace(".", "").replace("+", "-")
    return f"gpu-{index}-mig-{short}-{number}-{start}"


def build_device(
    name: str,
    attributes: JsonObject,
    capacity: Mapping[str, str],
    index: int,
    counters: JsonObject,
    taints: Sequence[JsonObject] = (),
) -> JsonObject:
    """A device with quantities of capacity, and the counters that it consumes of a GPU."""
    device: JsonObject = {
        "name": name,
        "attributes": attributes,
        "capacity": {each: {"value": value} for each, value in capacity.items()},
    }
    if counters:
        consumed: JsonObject = {"counterSet": counter_set_name(index), "counters": counters}
        device["consumesCounters"] = [consumed]
    return {**device, "taints": list(taints)} if taints else device


def counter_set_name(index: int) -> str:
    """The counters of a GPU."""
    return f"gpu-{index}-counter-set"


def slice_counters(slices: Iterable[int], media: bool = False) -> JsonObject:
    """Counters of memory slices, and of the media extensions."""
    counters: JsonObject = {f"memory-slice-{number}": {"value": "1"} for number in slices}
    return {**counters, MEDIA_COUNTER: {"value": "1"}} if media else counters


def typed_attributes(values: Mapping[str, str | int | bool]) -> JsonObject:
    """Attributes by their type; empty strings are left out."""
    return {name: _attribute(value) for name, value in values.items() if value != ""}


def version_attribute(version: str) -> JsonObject | None:
    """A version attribute, `13.0` as `13.0.0`; None if the text is no version. Semantic versions
    have three numbers without leading zeros."""
    parts = version.split(".")
    if not 1 <= len(parts) <= 3 or not all(each.isascii() and each.isdecimal() for each in parts):
        return None
    numbers = [int(each) for each in parts] + [0] * (3 - len(parts))
    return {"version": ".".join(map(str, numbers))}


def build_pool(
    driver: str,
    node: str,
    node_uid: str,
    devices: Sequence[JsonObject],
    counter_sets: Sequence[JsonObject] = (),
    *,
    generation: int = 1,
) -> list[JsonObject]:
    """The ResourceSlices of a node's pool, which has the name of the node."""
    parts: list[JsonObject] = [
        {"sharedCounters": list(each)} for each in _split(counter_sets, MAX_COUNTER_SETS)
    ]
    needs_more = bool(counter_sets) or any("taints" in each for each in devices)
    size = MAX_DEVICES_WITH_COUNTERS if needs_more else MAX_DEVICES
    parts += [{"devices": list(each)} for each in _split(devices, size)]
    pool: JsonObject = {"name": node, "generation": generation, "resourceSliceCount": len(parts)}
    owner: JsonObject = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return [
        {
            "metadata": {"name": f"{node}-{driver}-{number}", "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, **part},
        }
        for number, part in enumerate(parts)
    ]


def build_device_class(
    name: str, driver: str, kind: str, *, extended_resource: str = ""
) -> JsonObject:
    """The class of a driver's devices of a type: `gpu` or `mig`."""
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    spec: JsonObject = {"selectors": [{"cel": {"expression": expression}}]}
    if extended_resource:
        spec["extendedResourceName"] = extended_resource
    return {"metadata": {"name": name}, "spec": spec}


def _attribute(value: str | int | bool) -> JsonObject:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def _split(items: Sequence[JsonObject], size: int) -> Iterator[Sequence[JsonObject]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
