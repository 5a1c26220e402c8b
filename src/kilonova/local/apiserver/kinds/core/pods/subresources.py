"""Strategies of the subresources of pods: status, ephemeralcontainers, resize."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, invalid_value
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value
from kilonova.local.apiserver.kinds.core.pods.ephemeral_containers import (
    validate_ephemeral_containers_update,
)
from kilonova.local.apiserver.kinds.core.pods.strategy import PodStrategy
from kilonova.local.apiserver.kinds.strategy import register_strategy
from kilonova.local.objects.qos import qos_class

_CONTAINERS = ("containers", "initContainers")
_RESIZABLE_RESOURCES = ("cpu", "memory")
_PRESERVED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@register_strategy("", "Pod", subresource="status")
class PodStatusStrategy(PodStrategy):
    """`/status`: the spec is the stored one, so nothing is defaulted or validated."""

    def set_defaults(self, obj: JsonObject) -> None:
        pass

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return []


@register_strategy("", "Pod", subresource="ephemeralcontainers")
class EphemeralContainersStrategy(PodStrategy):
    """`/ephemeralcontainers`: changes only the list of ephemeral containers."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        added = new["spec"].get("ephemeralContainers")
        spec: JsonObject = {**old["spec"], "ephemeralContainers": added}
        _preserve_except_spec(new, old, spec if added else old["spec"])

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return list(validate_ephemeral_containers_update(new, old))

    def warnings(self, obj: JsonObject) -> list[str]:
        return []


@register_strategy("", "Pod", subresource="resize")
class PodResizeStrategy(PodStrategy):
    """`/resize`: changes only container resources, which the kubelet applies in place."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        spec: JsonObject = dict(old["spec"])
        for field in _CONTAINERS:
            requested, current = nested_objects(new["spec"], field), nested_objects(spec, field)
            if len(requested) != len(current):
                return  # rejected by the validation below, which reports it
            if current:
                spec[field] = [
                    _merge_resize(*pair) for pair in zip(requested, current, strict=True)
                ]
        if resources := new["spec"].get("resources"):
            spec["resources"] = resources
        _preserve_except_spec(new, old, spec)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return list(_validate_resize(new, old))

    def warnings(self, obj: JsonObject) -> list[str]:
        return []


def _preserve_except_spec(new: JsonObject, old: JsonObject, spec: JsonObject) -> None:
    new["spec"], new["status"] = spec, old.get("status", {})
    for name in _PRESERVED_METADATA:
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
        else:
            new["metadata"].pop(name, None)


def _merge_resize(requested: JsonObject, current: JsonObject) -> JsonObject:
    if requested.get("name") != current.get("name"):
        return requested
    amounts = {name: requested[name] for name in ("resources", "resizePolicy") if name in requested}
    return {**current, **amounts}


def _validate_resize(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    spec, before = nested_object(new, "spec"), nested_object(old, "spec")
    if (nested_value(old, "status", "qosClass") or qos_class(before)) != qos_class(spec):
        detail = "Pod QOS Class may not change as a result of resizing"
        yield invalid_value("spec", nested_value(new, "status", "qosClass") or "", detail)
    order_errors = list(_validate_container_order(spec, before))
    yield from order_errors
    if order_errors:
        return
    for field in reversed(_CONTAINERS):
        for index, (container, earlier) in enumerate(
            zip(nested_objects(spec, field), nested_objects(before, field), strict=True)
        ):
            resources_path = f"spec.{field}[{index}].resources"
            resources, current = (
                nested_object(container, "resources"),
                nested_object(earlier, "resources"),
            )
            for amounts in ("requests", "limits"):
                if (
                    nested_object(current, amounts).keys()
                    - nested_object(resources, amounts).keys()
                ):
                    yield forbidden_value(
                        f"{resources_path}.{amounts}", f"resource {amounts} cannot be removed"
                    )
            if _without_resizable_fields(container) != _without_resizable_fields(earlier):
                yield forbidden_value("spec", "only cpu and memory resources are mutable")


def _validate_container_order(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    for field in _CONTAINERS:
        names, earlier = (
            [each.get("name") for each in nested_objects(s, field)] for s in (spec, before)
        )
        if len(names) != len(earlier):
            detail = f"{field} may not be added or removed on resize"
            yield forbidden_value(f"spec.{field}", detail)
            continue
        for index, (name, current) in enumerate(zip(names, earlier, strict=True)):
            if name != current:
                detail = f"{field} may not be renamed or reordered on resize"
                yield forbidden_value(f"spec.{field}[{index}].name", detail)


def _without_resizable_fields(container: JsonObject) -> JsonObject:
    """A container without the fields that may be resized."""
    resources: dict[str, Any] = dict(nested_object(container, "resources"))
    for amounts in ("requests", "limits"):
        kept = {
            k: v
            for k, v in nested_object(resources, amounts).items()
            if k not in _RESIZABLE_RESOURCES
        }
        resources[amounts] = kept
    return {**container, "resources": resources}
