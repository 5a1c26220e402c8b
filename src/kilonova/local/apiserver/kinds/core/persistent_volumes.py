"""PersistentVolumes and PersistentVolumeClaims."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, required_value
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.columns import AGE, NAME, UNSET, text_column, wide_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"


def _format_access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class(obj: JsonObject) -> str:
    annotated = nested_object(obj["metadata"], "annotations").get(_CLASS)
    return annotated or nested_value(obj, "spec", "storageClassName") or ""


def _phase(obj: JsonObject) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return nested_value(obj, "status", "phase") or ""


def _claim(obj: JsonObject) -> str:
    claim = nested_value(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _value_if_bound(obj: JsonObject, *path: str) -> object:
    return nested_value(obj, *path) if nested_value(obj, "spec", "volumeName") else None


def _add_protection_finalizer(obj: JsonObject, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


_STATUS = PrinterColumn("Status", "string", lambda obj, _: _phase(obj))
_STORAGE_CLASS = PrinterColumn("StorageClass", "string", lambda obj, _: _class(obj))
_ATTRIBUTES = text_column(
    "VolumeAttributesClass", "spec", "volumeAttributesClassName", missing=UNSET
)
_MODE = wide_column("VolumeMode", lambda obj: nested_value(obj, "spec", "volumeMode") or UNSET)


@register_strategy("", "PersistentVolume")
class PersistentVolumeStrategy(BuiltinStrategy):
    """A volume."""

    returns_deleted_object = True
    columns = (
        NAME,
        text_column("Capacity", "spec", "capacity", "storage", missing="0"),
        PrinterColumn(
            "Access Modes",
            "string",
            lambda obj, _: _format_access_modes(nested_value(obj, "spec", "accessModes")),
        ),
        text_column("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _STATUS,
        PrinterColumn("Claim", "string", lambda obj, _: _claim(obj)),
        _STORAGE_CLASS,
        _ATTRIBUTES,
        text_column("Reason", "status", "reason"),
        AGE,
        _MODE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        ensure_object(obj, "status").setdefault("phase", "Pending")
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if host_path := spec.get("hostPath"):
            host_path.setdefault("type", "")

    def prepare_create(self, obj: JsonObject) -> None:
        created = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": created}
        _add_protection_finalizer(obj, "kubernetes.io/pv-protection")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        missing = [
            field for field in ("capacity", "accessModes") if not nested_value(obj, "spec", field)
        ]
        return [required_value(f"spec.{field}") for field in missing]

    def warnings(self, obj: JsonObject) -> list[str]:
        return _class_annotation_warnings(obj)


@register_strategy("", "PersistentVolumeClaim")
class PersistentVolumeClaimStrategy(BuiltinStrategy):
    """A request for a volume."""

    returns_deleted_object = True
    columns = (
        NAME,
        _STATUS,
        text_column("Volume", "spec", "volumeName"),
        PrinterColumn(
            "Capacity",
            "string",
            lambda obj, _: (
                (_value_if_bound(obj, "status", "capacity", "storage") or "0")
                if nested_value(obj, "spec", "volumeName")
                else ""
            ),
        ),
        PrinterColumn(
            "Access Modes",
            "string",
            lambda obj, _: (
                _format_access_modes(nested_value(obj, "status", "accessModes"))
                if nested_value(obj, "spec", "volumeName")
                else ""
            ),
        ),
        _STORAGE_CLASS,
        _ATTRIBUTES,
        AGE,
        _MODE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        set_claim_defaults(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        _add_protection_finalizer(obj, "kubernetes.io/pvc-protection")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        if not spec.get("accessModes"):
            problems.append(
                required_value("spec.accessModes", "at least 1 access mode is required")
            )
        if nested_value(spec, "resources", "requests", "storage") is None:
            problems.append(required_value("spec.resources[storage]"))
        return problems

    def warnings(self, obj: JsonObject) -> list[str]:
        return _class_annotation_warnings(obj)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        if _immutable_spec(new, old) == _immutable_spec(old, old):
            return []
        detail = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
        )
        return [forbidden_value("spec", detail)]


def _class_annotation_warnings(obj: JsonObject) -> list[str]:
    if _CLASS not in nested_object(obj["metadata"], "annotations"):
        return []
    detail = 'use "storageClassName" attribute instead'
    return [f"metadata.annotations[{_CLASS}]: deprecated since v1.8; {detail}"]


def set_claim_defaults(claim: JsonObject) -> None:
    """Set the defaults of a claim, also of a StatefulSet's claim template."""
    ensure_object(claim, "status").setdefault("phase", "Pending")
    ensure_object(claim, "spec").setdefault("volumeMode", "Filesystem")


def _immutable_spec(claim: JsonObject, old: JsonObject) -> JsonObject:
    spec = dict(nested_object(claim, "spec"))
    before = nested_object(old, "spec")
    free = ["volumeAttributesClassName"]
    free += [field for field in ("volumeName", "storageClassName") if not before.get(field)]
    for field in free:
        spec.pop(field, None)
    if nested_value(old, "status", "phase") == "Bound" and spec.get("resources"):
        spec["resources"] = {**spec["resources"], "requests": None}
    return spec
