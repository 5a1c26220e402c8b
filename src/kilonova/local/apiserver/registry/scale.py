"""`/scale`: kinds with replicas, as an autoscaling/v1 Scale."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import invalid, invalid_value
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind, ScaleAccessor
from kilonova.local.apiserver.registry.writes import ObjectUpdate


@dataclass(frozen=True, slots=True)
class BuiltinScalePaths:
    """The fields of Deployments and other built-in kinds that a Scale shows."""

    def read_scale(self, obj: JsonObject) -> tuple[int, int, str]:
        selector = obj.get("spec", {}).get("selector")
        text = ""
        if selector:
            is_label_map = "matchLabels" not in selector and "matchExpressions" not in selector
            text = str(
                selector_from_object({"matchLabels": selector} if is_label_map else selector)
            )
        return (
            obj.get("spec", {}).get("replicas", 0),
            obj.get("status", {}).get("replicas", 0),
            text,
        )

    def set_replicas(self, obj: JsonObject, replicas: int) -> None:
        obj.setdefault("spec", {})["replicas"] = replicas


def scale_paths(kind: Kind) -> ScaleAccessor:
    """The scale fields of `kind`: those of its definition, or those of the built-in kinds."""
    return kind.scale if kind.scale is not None else BuiltinScalePaths()


def scale_from_object(kind: Kind, obj: JsonObject) -> JsonObject:
    """The Scale of an object."""
    replicas, observed, selector = scale_paths(kind).read_scale(obj)
    metadata = obj["metadata"]
    status: JsonObject = {"replicas": observed}
    if selector:
        status["selector"] = selector
    metadata_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in metadata_fields if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


@dataclass(frozen=True, slots=True)
class ScaleView:
    """The Scale of an object, for admission."""

    kind: Kind

    def extract(self, obj: JsonObject) -> JsonObject:
        return scale_from_object(self.kind, obj)

    def restore(self, obj: JsonObject, extracted: JsonObject) -> None:
        replicas = nested_object(extracted, "spec").get("replicas", 0)
        if replicas != scale_paths(self.kind).read_scale(obj)[0]:
            scale_paths(self.kind).set_replicas(obj, replicas)


def make_rescale(target: ResourceTarget, make_scale: ObjectUpdate) -> ObjectUpdate:
    """Convert an update of a Scale to an update of its object."""
    kind = target.kind

    def update(old: JsonObject | None) -> JsonObject:
        assert old is not None
        requested = make_scale(scale_from_object(kind, old))
        replicas = nested_object(requested, "spec").get("replicas", 0)
        # A custom kind validates its replicas itself, at the path of its definition.
        if kind.scale is None and (not isinstance(replicas, int) or replicas < 0):
            problem = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", target.name, [problem])
        scale_paths(kind).set_replicas(old, replicas)
        requested_metadata = nested_object(requested, "metadata")
        for name in ("uid", "resourceVersion"):
            if requested_metadata.get(name):
                old["metadata"][name] = requested_metadata[name]
        return old

    return update
