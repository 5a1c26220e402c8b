"""PersistentVolumes and PersistentVolumeClaims."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, UNSET, text, wide
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class(obj: JsonObject) -> str:
    annotated = part(obj["metadata"], "annotations").get(_CLASS)
    return annotated or at(obj, "spec", "storageClassName") or ""


def _phase(obj: JsonObject) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return at(obj, "status", "phase") or ""


def _claim(obj: JsonObject) -> str:
    claim = at(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _bound(obj: JsonObject, *path: str) -> object:
    return at(obj, *path) if at(obj, "spec", "volumeName") else None


def _protect(obj: JsonObject, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


_STATUS = Column("Status", "string", lambda obj, _: _phase(obj))
_STORAGE_CLASS = Column("StorageClass", "string", lambda obj, _: _class(obj))
_ATTRIBUTES = text("VolumeAttributesClass", "spec", "volumeAttributesClassName", missing=UNSET)
_MODE = wide("VolumeMode", lambda obj: at(obj, "spec", "volumeMode") or UNSET)


@strategy("", "PersistentVolume")
class PersistentVolumes(Strategy):
    """A piece of storage."""

    shown_when_deleted = True
    columns = (
        NAME,
        text("Capacity", "spec", "capacity", "storage", missing="0"),
        Column("Access Modes", "string", lambda obj, _: _modes(at(obj, "spec", "accessModes"))),
        text("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _STATUS,
        Column("Claim", "string", lambda obj, _: _claim(obj)),
        _STORAGE_CLASS,
        _ATTRIBUTES,
        text("Reason", "status", "reason"),
        AGE,
        _MODE,
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        inside(obj, "status").setdefault("phase", "Pending")
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if host_path := spec.get("hostPath"):
            host_path.setdefault("type", "")

    def prepare_create(self, obj: JsonObject) -> None:
        created = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": created}
        _protect(obj, "kubernetes.io/pv-protection")

    def problems(self, obj: JsonObject) -> list[Problem]:
        missing = [field for field in ("capacity", "accessModes") if not at(obj, "spec", field)]
        return [required(f"spec.{field}") for field in missing]

    def warnings(self, obj: JsonObject) -> list[str]:
        return _old_annotation(obj)


@strategy("", "PersistentVolumeClaim")
class PersistentVolumeClaims(Strategy):
    """A demand for storage."""

    shown_when_deleted = True
    columns = (
        NAME,
        _STATUS,
        text("Volume", "spec", "volumeName"),
        Column(
            "Capacity",
            "string",
            lambda obj, _: (
                (_bound(obj, "status", "capacity", "storage") or "0")
                if at(obj, "spec", "volumeName")
                else ""
            ),
        ),
        Column(
            "Access Modes",
            "string",
            lambda obj, _: (
                _modes(at(obj, "status", "accessModes")) if at(obj, "spec", "volumeName") else ""
            ),
        ),
        _STORAGE_CLASS,
        _ATTRIBUTES,
        AGE,
        _MODE,
    )

    def fill(self, obj: JsonObject) -> None:
        fill_claim(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        _protect(obj, "kubernetes.io/pvc-protection")

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        if not spec.get("accessModes"):
            problems.append(required("spec.accessModes", "at least 1 access mode is required"))
        if at(spec, "resources", "requests", "storage") is None:
            problems.append(required("spec.resources[storage]"))
        return problems

    def warnings(self, obj: JsonObject) -> list[str]:
        return _old_annotation(obj)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        if _fixed(new, old) == _fixed(old, old):
            return []
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
        )
        return [forbidden_field("spec", detail)]


def _old_annotation(obj: JsonObject) -> list[str]:
    if _CLASS not in part(obj["metadata"], "annotations"):
        return []
    advice = 'use "storageClassName" attribute instead'
    return [f"metadata.annotations[{_CLASS}]: deprecated since v1.8; {advice}"]


def fill_claim(claim: JsonObject) -> None:
    """Defaults of a claim, also of one that a StatefulSet keeps as a template."""
    inside(claim, "status").setdefault("phase", "Pending")
    inside(claim, "spec").setdefault("volumeMode", "Filesystem")


def _fixed(claim: JsonObject, old: JsonObject) -> JsonObject:
    spec = dict(part(claim, "spec"))
    before = part(old, "spec")
    free = ["volumeAttributesClassName"]
    free += [field for field in ("volumeName", "storageClassName") if not before.get(field)]
    for field in free:
        spec.pop(field, None)
    if at(old, "status", "phase") == "Bound" and spec.get("resources"):
        spec["resources"] = {**spec["resources"], "requests": None}
    return spec
