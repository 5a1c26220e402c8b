"""Dynamic resource allocation: claims, classes and slices of devices."""

from collections.abc import Iterator, Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, text_of

_GROUP = "resource.k8s.io"


@strategy(_GROUP, "DeviceClass")
class DeviceClasses(Strategy):
    """A name for a sort of device."""

    shown_when_deleted = True
    has_generation = True
    columns = (NAME, AGE)


def _state(obj: JsonObject) -> str:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if not at(obj, "status", "allocation"):
        states += [] if deleted else ["pending"]
    else:
        states.append("allocated")
        if at(obj, "status", "reservedFor"):
            states.append("reserved")
    return ",".join(states)


@strategy(_GROUP, "ResourceClaim")
class ResourceClaims(Strategy):
    """Devices that a pod waits for. What it asks for is fixed."""

    shown_when_deleted = True
    columns = (NAME, Column("State", "string", lambda obj, _: _state(obj)), AGE)

    def fill(self, obj: JsonObject) -> None:
        _fill_requests(inside(obj, "spec"))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec")


@strategy(_GROUP, "ResourceClaimTemplate")
class ResourceClaimTemplates(Strategy):
    """What a claim per pod is made from."""

    shown_when_deleted = True
    columns = (NAME, AGE)

    def fill(self, obj: JsonObject) -> None:
        _fill_requests(inside(inside(obj, "spec"), "spec"))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec")


@strategy(_GROUP, "ResourceSlice")
class ResourceSlices(Strategy):
    """Devices that a driver offers."""

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

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return [
            problem
            for path in (("spec", "driver"), ("spec", "nodeName"), ("spec", "pool", "name"))
            for problem in immutable(new, old, *path)
        ]


def _fill_requests(spec: JsonObject) -> None:
    for request in _exact_requests(spec):
        mode = request.setdefault("allocationMode", "ExactCount")
        if mode == "ExactCount":
            request.setdefault("count", 1)


def _exact_requests(spec: JsonObject) -> Iterator[JsonObject]:
    for request in objects(spec, "devices", "requests"):
        if (exactly := request.get("exactly")) is not None:
            yield exactly
        yield from objects(request, "firstAvailable")
