"""Kinds of storage.k8s.io."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, required_value
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    count_column,
    flag_column,
    text_column,
)
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _name(obj: JsonObject) -> str:
    annotations = nested_object(obj["metadata"], "annotations")
    default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return obj["metadata"].get("name", "") + (" (default)" if default else "")


@register_strategy("storage.k8s.io", "StorageClass")
class StorageClassStrategy(BuiltinStrategy):
    """The provisioner and parameters of a class of volumes."""

    returns_deleted_object = True
    columns = (
        PrinterColumn("Name", "string", lambda obj, _: _name(obj), format="name"),
        text_column("Provisioner", "provisioner"),
        text_column("ReclaimPolicy", "reclaimPolicy", missing="Delete"),
        text_column("VolumeBindingMode", "volumeBindingMode", missing="Immediate"),
        flag_column("AllowVolumeExpansion", "allowVolumeExpansion", type="string"),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return [] if obj.get("provisioner") else [required_value("provisioner")]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [problem for field in fields for problem in validate_immutable(new, old, field)]


def _format_lifecycle_modes(obj: JsonObject) -> str:
    return ",".join(nested_value(obj, "spec", "volumeLifecycleModes") or ()) or NONE


def _format_audiences(obj: JsonObject) -> str:
    requests = nested_value(obj, "spec", "tokenRequests")
    if requests is None:
        return UNSET
    return ",".join(request.get("audience", "") for request in requests)


@register_strategy("storage.k8s.io", "CSIDriver")
class CSIDriverStrategy(BuiltinStrategy):
    """The capabilities of a CSI driver."""

    returns_deleted_object = True
    allows_unconditional_update = False
    columns = (
        NAME,
        flag_column("AttachRequired", "spec", "attachRequired", missing=True),
        flag_column("PodInfoOnMount", "spec", "podInfoOnMount"),
        flag_column("StorageCapacity", "spec", "storageCapacity"),
        PrinterColumn("TokenRequests", "string", lambda obj, _: _format_audiences(obj)),
        flag_column("RequiresRepublish", "spec", "requiresRepublish"),
        PrinterColumn("Modes", "string", lambda obj, _: _format_lifecycle_modes(obj)),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("volumeLifecycleModes", ["Persistent"])


@register_strategy("storage.k8s.io", "CSINode")
class CSINodeStrategy(BuiltinStrategy):
    """The CSI drivers of a node."""

    returns_deleted_object = True
    allows_unconditional_update = False
    columns = (NAME, count_column("Drivers", "spec", "drivers"), AGE)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return [
            required_value(f"spec.drivers[{index}].{field}")
            for index, driver in enumerate(nested_objects(obj, "spec", "drivers"))
            for field in ("name", "nodeID")
            if not driver.get(field)
        ]


@register_strategy("storage.k8s.io", "VolumeAttachment")
class VolumeAttachmentStrategy(BuiltinStrategy):
    """The attachment of a volume to a node."""

    returns_deleted_object = True
    allows_unconditional_update = False
    columns = (
        NAME,
        PrinterColumn(
            "Attacher",
            "string",
            lambda obj, _: nested_value(obj, "spec", "attacher"),
            format="name",
        ),
        text_column("PV", "spec", "source", "persistentVolumeName"),
        text_column("Node", "spec", "nodeName"),
        flag_column("Attached", "status", "attached"),
        AGE,
    )


@register_strategy("storage.k8s.io", "CSIStorageCapacity")
class CSIStorageCapacityStrategy(BuiltinStrategy):
    """The free capacity of a CSI driver."""

    allows_unconditional_update = False


@register_strategy("storage.k8s.io", "VolumeAttributesClass")
class VolumeAttributesClassStrategy(BuiltinStrategy):
    """Mutable attributes of volumes."""

    returns_deleted_object = True
    columns = (NAME, text_column("DriverName", "driverName"), AGE)
