"""ResourceSlices: devices that a driver offers, on a node or on many."""

from collections.abc import Iterator, Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.devicecapacities import counter_problems
from kilonova.local.kinds.devicenames import driver_name, each_once, pool_name, short_name
from kilonova.local.kinds.devices import device_problems, nodes_given
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import objects, part, text_of

_MOST_DEVICES = 128
_MOST_ADVANCED_DEVICES = 64
_MOST_COUNTER_SETS = 8
_FIXED = (("spec", "pool", "name"), ("spec", "driver"), ("spec", "nodeName"))
_NOT_ENABLED = ("ints", "bools", "strings", "versions")
"""Lists as attributes, which wait for a feature of Kubernetes that is off (1.36)."""


@strategy("resource.k8s.io", "ResourceSlice")
class ResourceSlices(Strategy):
    """Some of the devices of a driver's pool."""

    shown_when_deleted = True
    has_generation = True
    columns = (
        NAME,
        text("Node", "spec", "nodeName"),
        text("Driver", "spec", "driver"),
        text("Pool", "spec", "pool", "name"),
        AGE,
    )
    selectable: Mapping[str, Reads] = {
        "spec.nodeName": text_of("spec", "nodeName"),
        "spec.driver": text_of("spec", "driver"),
    }

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_what_is_off(obj)
        _date_taints(obj, obj["metadata"]["creationTimestamp"])

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        _drop_what_is_off(new)
        _date_taints(new, _last_write(new))

    def problems(self, obj: JsonObject) -> list[Problem]:
        return list(_problems(part(obj, "spec")))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return [problem for path in _FIXED for problem in immutable(new, old, *path)]

    def warnings(self, obj: JsonObject) -> list[str]:
        driver = part(obj, "spec").get("driver", "")
        if driver == driver.lower():
            return []
        return [
            "spec.driver: driver names should be lowercase; "
            f'"{driver}" contains uppercase characters'
        ]


def _drop_what_is_off(obj: JsonObject) -> None:
    for device in objects(obj, "spec", "devices"):
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in part(device, "attributes").values():
            for name in _NOT_ENABLED:
                attribute.pop(name, None)


def _date_taints(obj: JsonObject, now: str) -> None:
    for device in objects(obj, "spec", "devices"):
        for taint in objects(device, "taints"):
            taint.setdefault("timeAdded", now)


def _last_write(obj: JsonObject) -> str:
    """When the write under way came: it has been noted who owns what since then."""
    metadata = obj["metadata"]
    times = [each["time"] for each in objects(metadata, "managedFields") if each.get("time")]
    return max(times, default=metadata["creationTimestamp"])


def _problems(spec: JsonObject) -> Iterator[Problem]:
    yield from driver_name(spec.get("driver", ""), "spec.driver")
    yield from _pool(part(spec, "pool"), "spec.pool")
    yield from _where(spec)
    devices, sets = objects(spec, "devices"), objects(spec, "sharedCounters")
    if devices and sets:
        detail = "only one of `sharedCounters` or `devices` is allowed"
        yield invalid_value("spec", "", detail)
    advanced = any(each.get("taints") or each.get("consumesCounters") for each in devices)
    most = _MOST_ADVANCED_DEVICES if advanced else _MOST_DEVICES
    chosen_by_device = bool(spec.get("perDeviceNodeSelection"))

    def device(value: JsonObject, path: str) -> Iterator[Problem]:
        return device_problems(value, path, chosen_by_device)

    yield from each_once(devices, most, device, "spec.devices", _name_of)
    path = "spec.sharedCounters"
    yield from each_once(sets, _MOST_COUNTER_SETS, _counter_set, path, _name_of)


def _name_of(value: JsonObject) -> str:
    return value.get("name", "")


def _pool(pool: JsonObject, path: str) -> Iterator[Problem]:
    yield from pool_name(pool.get("name", ""), f"{path}.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield invalid_value(f"{path}.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        detail = "must be greater than or equal to zero"
        yield invalid_value(f"{path}.generation", generation, detail)


def _where(spec: JsonObject) -> Iterator[Problem]:
    """Exactly one way to say which nodes can use the devices."""
    empty = "must be either unset or set to a non-empty string"
    given = yield from nodes_given(spec, "spec", empty)
    selector = spec.get("nodeSelector")
    if selector is not None and len(objects(selector, "nodeSelectorTerms")) != 1:
        terms = selector.get("nodeSelectorTerms")
        detail = "must have exactly one node selector term"
        yield invalid_value("spec.nodeSelector.nodeSelectorTerms", terms, detail)
    if (chosen := spec.get("perDeviceNodeSelection")) is not None:
        if chosen:
            given.append("`perDeviceNodeSelection`")
        else:
            detail = "must be either unset or set to true"
            yield invalid_value("spec.perDeviceNodeSelection", chosen, detail)
    wanted = (
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
        "is required"
    )
    if not given:
        yield required("spec", wanted)
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        yield invalid_value("spec", shown, f"{wanted}, but multiple fields are set")


def _counter_set(value: JsonObject, path: str) -> Iterator[Problem]:
    if value.get("name"):
        yield from short_name(value["name"], f"{path}.name")
    else:
        yield required(f"{path}.name")
    yield from counter_problems(value, path)
