"""Claims, volumes and storage classes: only the fields that controllers use."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.objects.core import NodeSelector

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
_BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

QuantityValue = str | int | float


class StorageRequests(msgspec.Struct, frozen=True):
    """The requested storage."""

    requests: dict[str, QuantityValue] = {}


class VolumeClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a claim."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    resources: StorageRequests = StorageRequests()
    selector: JsonObject | None = None


class VolumeClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a claim."""

    phase: str = "Pending"
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, QuantityValue] = {}


class VolumeClaim(msgspec.Struct):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()

    @property
    def storage_class(self) -> str | None:
        """The name of its class; empty for no class, None if it is not set."""
        return self.metadata.annotations.get(_BETA_CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def requested_storage(self) -> QuantityValue:
        return self.spec.resources.requests.get("storage", 0)

    @property
    def was_bound(self) -> bool:
        return BIND_COMPLETED in self.metadata.annotations


class VolumeClaimReference(msgspec.Struct, frozen=True):
    """The claim of a volume; without a uid any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True):
    """Which nodes can access a volume."""

    required: NodeSelector | None = None


class HostPathSource(msgspec.Struct, frozen=True):
    """A directory of a node."""

    path: str = ""


class PersistentVolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a volume."""

    capacity: dict[str, QuantityValue] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: VolumeClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPathSource | None = None


class PersistentVolumeStatus(msgspec.Struct, frozen=True):
    """The status of a volume."""

    phase: str = "Pending"


class PersistentVolume(msgspec.Struct):
    """A PersistentVolume."""

    metadata: Metadata
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(_BETA_CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def size(self) -> QuantityValue:
        return self.spec.capacity.get("storage", 0)

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes that can access it; None: all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class StorageClass(msgspec.Struct, rename="camel"):
    """A StorageClass."""

    metadata: Metadata
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
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
