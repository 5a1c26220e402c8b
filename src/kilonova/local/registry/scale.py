"""`/scale`: any kind that has replicas, seen as an autoscaling/v1 Scale."""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.errors import invalid, invalid_value
from kilonova.local.kinds.base import Kind, ScalePaths
from kilonova.local.kinds.walk import part
from kilonova.local.registry.writes import Make
from kilonova.local.routes import Target
from kilonova.local.selectors import label_selector


@dataclass(frozen=True, slots=True)
class BuiltinScale:
    """Where Deployments and their like keep what a Scale shows."""

    def read(self, obj: JsonObject) -> tuple[int, int, str]:
        selector = obj.get("spec", {}).get("selector")
        text = ""
        if selector:
            plain = "matchLabels" not in selector and "matchExpressions" not in selector
            text = str(label_selector({"matchLabels": selector} if plain else selector))
        return (
            obj.get("spec", {}).get("replicas", 0),
            obj.get("status", {}).get("replicas", 0),
            text,
        )

    def write(self, obj: JsonObject, replicas: int) -> None:
        obj.setdefault("spec", {})["replicas"] = replicas


def scale_paths(kind: Kind) -> ScalePaths:
    """How `kind` is scaled: as its definition says, or as the built-in kinds are."""
    return kind.scale if kind.scale is not None else BuiltinScale()


def scale_of(kind: Kind, obj: JsonObject) -> JsonObject:
    """The Scale that an object shows."""
    replicas, observed, selector = scale_paths(kind).read(obj)
    metadata = obj["metadata"]
    status: JsonObject = {"replicas": observed}
    if selector:
        status["selector"] = selector
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


@dataclass(frozen=True, slots=True)
class ScaleView:
    """What admission sees of an object that is scaled."""

    kind: Kind

    def show(self, obj: JsonObject) -> JsonObject:
        return scale_of(self.kind, obj)

    def take(self, obj: JsonObject, shown: JsonObject) -> None:
        replicas = part(shown, "spec").get("replicas", 0)
        if replicas != scale_paths(self.kind).read(obj)[0]:
            scale_paths(self.kind).write(obj, replicas)


def rescaling(target: Target, make_scale: Make) -> Make:
    """The change of an object that a change of its Scale amounts to."""
    kind = target.kind

    def make(old: JsonObject | None) -> JsonObject:
        assert old is not None
        wanted = make_scale(scale_of(kind, old))
        replicas = part(wanted, "spec").get("replicas", 0)
        # A custom kind judges its replicas itself, by the path that its definition names.
        if kind.scale is None and (not isinstance(replicas, int) or replicas < 0):
            problem = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", target.name, [problem])
        scale_paths(kind).write(old, replicas)
        wanted_metadata = part(wanted, "metadata")
        for name in ("uid", "resourceVersion"):
            if wanted_metadata.get(name):
                old["metadata"][name] = wanted_metadata[name]
        return old

    return make
