"""Claims of storage, volumes and storage classes, as far as controllers look at them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.controllers.objects import NodeSelector

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONERS = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS = "volume.beta.kubernetes.io/storage-class"

Amount = str | int | float


class Requests(msgspec.Struct, frozen=True):
    """How much storage is asked for."""

    requests: dict[str, Amount] = {}


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a claim asks for."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    resources: Requests = Requests()
    selector: JsonObject | None = None


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a claim has."""

    phase: str = "Pending"
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, Amount] = {}


class VolumeClaim(msgspec.Struct):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def storage_class(self) -> str | None:
        """The name of its class; empty where it wants none, None where it says nothing."""
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name)

    @property
    def requested(self) -> Amount:
        return self.spec.resources.requests.get("storage", 0)

    @property
    def was_bound(self) -> bool:
        return BIND_COMPLETED in self.metadata.annotations


class ClaimReference(msgspec.Struct, frozen=True):
    """The claim that a volume is for; without a uid it is for any of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(msgspec.Struct, frozen=True):
    """Which nodes can reach a volume."""

    required: NodeSelector | None = None


class HostPath(msgspec.Struct, frozen=True):
    """A folder of a node."""

    path: str = ""


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a volume is."""

    capacity: dict[str, Amount] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeAffinity | None = None
    host_path: HostPath | None = None


class VolumeStatus(msgspec.Struct, frozen=True):
    """Whether a volume is free."""

    phase: str = "Pending"


class PersistentVolume(msgspec.Struct):
    """A PersistentVolume."""

    metadata: Metadata
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Amount:
        return self.spec.capacity.get("storage", 0)

    @property
    def nodes(self) -> NodeSelector | None:
        """The nodes that can reach it; None: all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class StorageClass(msgspec.Struct, rename="camel"):
    """A StorageClass."""

    metadata: Metadata
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()

    @property
    def waits_for_pod(self) -> bool:
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def is_default(self) -> bool:
        return any(self.metadata.annotations.get(name) == "true" for name in DEFAULT_CLASS)


VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, VolumeClaim
)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass
)
