"""StorageClasses, and what else the group of storage has."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, UNSET, count, flag, text
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _name(obj: JsonObject) -> str:
    annotations = part(obj["metadata"], "annotations")
    default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return obj["metadata"].get("name", "") + (" (default)" if default else "")


@strategy("storage.k8s.io", "StorageClass")
class StorageClasses(Strategy):
    """A way to make volumes."""

    shown_when_deleted = True
    columns = (
        Column("Name", "string", lambda obj, _: _name(obj), format="name"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy", missing="Delete"),
        text("VolumeBindingMode", "volumeBindingMode", missing="Immediate"),
        flag("AllowVolumeExpansion", "allowVolumeExpansion", type="string"),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def problems(self, obj: JsonObject) -> list[Problem]:
        return [] if obj.get("provisioner") else [required("provisioner")]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [problem for field in fields for problem in immutable(new, old, field)]


def _modes(obj: JsonObject) -> str:
    return ",".join(at(obj, "spec", "volumeLifecycleModes") or ()) or NONE


def _audiences(obj: JsonObject) -> str:
    requests = at(obj, "spec", "tokenRequests")
    if requests is None:
        return UNSET
    return ",".join(request.get("audience", "") for request in requests)


@strategy("storage.k8s.io", "CSIDriver")
class CSIDrivers(Strategy):
    """What a storage driver can do."""

    shown_when_deleted = True
    unconditional_update = False
    columns = (
        NAME,
        flag("AttachRequired", "spec", "attachRequired", missing=True),
        flag("PodInfoOnMount", "spec", "podInfoOnMount"),
        flag("StorageCapacity", "spec", "storageCapacity"),
        Column("TokenRequests", "string", lambda obj, _: _audiences(obj)),
        flag("RequiresRepublish", "spec", "requiresRepublish"),
        Column("Modes", "string", lambda obj, _: _modes(obj)),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("attachRequired", True)
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(field, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("volumeLifecycleModes", ["Persistent"])


@strategy("storage.k8s.io", "CSINode")
class CSINodes(Strategy):
    """The storage drivers of a node."""

    shown_when_deleted = True
    unconditional_update = False
    columns = (NAME, count("Drivers", "spec", "drivers"), AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        return [
            required(f"spec.drivers[{index}].{field}")
            for index, driver in enumerate(objects(obj, "spec", "drivers"))
            for field in ("name", "nodeID")
            if not driver.get(field)
        ]


@strategy("storage.k8s.io", "VolumeAttachment")
class VolumeAttachments(Strategy):
    """A volume at a node."""

    shown_when_deleted = True
    unconditional_update = False
    columns = (
        NAME,
        Column("Attacher", "string", lambda obj, _: at(obj, "spec", "attacher"), format="name"),
        text("PV", "spec", "source", "persistentVolumeName"),
        text("Node", "spec", "nodeName"),
        flag("Attached", "status", "attached"),
        AGE,
    )


@strategy("storage.k8s.io", "CSIStorageCapacity")
class CSIStorageCapacities(Strategy):
    """Room that a driver has left."""

    unconditional_update = False


@strategy("storage.k8s.io", "VolumeAttributesClass")
class VolumeAttributesClasses(Strategy):
    """Settings of a volume that may change while it lives."""

    shown_when_deleted = True
    columns = (NAME, text("DriverName", "driverName"), AGE)
