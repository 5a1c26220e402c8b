"""Pods through their subresources: status, containers to look into them, and new amounts."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value
from kilonova.local.kinds.ephemeralcontainers import ephemeral_change_problems
from kilonova.local.kinds.pods import Pods, qos_class
from kilonova.local.kinds.strategy import strategy
from kilonova.local.kinds.walk import at, objects, part

_CONTAINERS = ("containers", "initContainers")
_RESIZED = ("cpu", "memory")
_KEPT_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@strategy("", "Pod", subresource="status")
class PodStatus(Pods):
    """The spec is the stored one, whatever is sent: there is nothing to fill in or to judge."""

    def fill(self, obj: JsonObject) -> None:
        pass

    def problems(self, obj: JsonObject) -> list[Problem]:
        return []


@strategy("", "Pod", subresource="ephemeralcontainers")
class EphemeralContainers(Pods):
    """Only the list of these containers changes."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        added = new["spec"].get("ephemeralContainers")
        spec: JsonObject = {**old["spec"], "ephemeralContainers": added}
        _keep_all_but_spec(new, old, spec if added else old["spec"])

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return list(ephemeral_change_problems(new, old))

    def warnings(self, obj: JsonObject) -> list[str]:
        return []


@strategy("", "Pod", subresource="resize")
class Resize(Pods):
    """Only what containers ask for changes; the node makes it so while they run."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        spec: JsonObject = dict(old["spec"])
        for field in _CONTAINERS:
            wanted, present = objects(new["spec"], field), objects(spec, field)
            if len(wanted) != len(present):
                return  # refused by the rules below, which want to see it
            if present:
                spec[field] = [_resized(*pair) for pair in zip(wanted, present, strict=True)]
        if resources := new["spec"].get("resources"):
            spec["resources"] = resources
        _keep_all_but_spec(new, old, spec)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return list(_resize_problems(new, old))

    def warnings(self, obj: JsonObject) -> list[str]:
        return []


def _keep_all_but_spec(new: JsonObject, old: JsonObject, spec: JsonObject) -> None:
    new["spec"], new["status"] = spec, old.get("status", {})
    for name in _KEPT_METADATA:
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def _resized(wanted: JsonObject, present: JsonObject) -> JsonObject:
    if wanted.get("name") != present.get("name"):
        return wanted
    amounts = {name: wanted[name] for name in ("resources", "resizePolicy") if name in wanted}
    return {**present, **amounts}


def _resize_problems(new: JsonObject, old: JsonObject) -> Iterator[Problem]:
    spec, before = part(new, "spec"), part(old, "spec")
    if (at(old, "status", "qosClass") or qos_class(before)) != qos_class(spec):
        detail = "Pod QOS Class may not change as a result of resizing"
        yield invalid_value("spec", at(new, "status", "qosClass") or "", detail)
    misplaced = list(_order_problems(spec, before))
    yield from misplaced
    if misplaced:
        return
    for field in reversed(_CONTAINERS):
        for index, (container, earlier) in enumerate(
            zip(objects(spec, field), objects(before, field), strict=True)
        ):
            here = f"spec.{field}[{index}].resources"
            resources, present = part(container, "resources"), part(earlier, "resources")
            for amounts in ("requests", "limits"):
                if part(present, amounts).keys() - part(resources, amounts).keys():
                    yield forbidden_field(
                        f"{here}.{amounts}", f"resource {amounts} cannot be removed"
                    )
            if _fixed(container) != _fixed(earlier):
                yield forbidden_field("spec", "only cpu and memory resources are mutable")


def _order_problems(spec: JsonObject, before: JsonObject) -> Iterator[Problem]:
    for field in _CONTAINERS:
        names, earlier = ([each.get("name") for each in objects(s, field)] for s in (spec, before))
        if len(names) != len(earlier):
            detail = f"{field} may not be added or removed on resize"
            yield forbidden_field(f"spec.{field}", detail)
            continue
        for index, (name, present) in enumerate(zip(names, earlier, strict=True)):
            if name != present:
                detail = f"{field} may not be renamed or reordered on resize"
                yield forbidden_field(f"spec.{field}[{index}].name", detail)


def _fixed(container: JsonObject) -> JsonObject:
    """A container without what may be resized."""
    resources: dict[str, Any] = dict(part(container, "resources"))
    for amounts in ("requests", "limits"):
        kept = {k: v for k, v in part(resources, amounts).items() if k not in _RESIZED}
        resources[amounts] = kept
    return {**container, "resources": resources}
