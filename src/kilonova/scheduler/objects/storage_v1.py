"""PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSI objects, with only the fields
that the scheduler uses."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.api.quantity import QuantityError, quantity_from_json
from kilonova.kube import Resource
from kilonova.scheduler.objects.core_v1 import (
    LabelSelector,
    NodeSelector,
    Quantities,
    ResourceRequirements,
)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class VolumeClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a claim."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class VolumeClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a claim."""

    phase: str = "Pending"


class PersistentVolumeClaim(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def storage_class(self) -> str:
        """The name of its StorageClass; empty if it has none."""
        return self.metadata.annotations.get(
            _STORAGE_CLASS_ANNOTATION, self.spec.storage_class_name or ""
        )

    @property
    def requested_bytes(self) -> int:
        """Requested bytes."""
        return _storage_bytes(self.spec.resources.requests)

    @property
    def is_bound(self) -> bool:
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """The claim of a volume; without a UID any claim of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class CsiVolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The CSI driver of a volume."""

    driver: str
    volume_handle: str = ""


class PersistentVolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a volume."""

    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolumeSource | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(msgspec.Struct, frozen=True, gc=False):
    """The phase of a volume."""

    phase: str = "Pending"


class PersistentVolume(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(
            _STORAGE_CLASS_ANNOTATION, self.spec.storage_class_name
        )

    @property
    def capacity_bytes(self) -> int:
        """Capacity in bytes."""
        return _storage_bytes(self.spec.capacity)

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes that can access it; None for all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class TopologySelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """Allowed values of a node label."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Label requirements that a node must all meet."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(msgspec.Struct, gc=False, rename="camel"):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def has_provisioner(self) -> bool:
        """Whether volumes are provisioned dynamically."""
        return self.provisioner not in ("", NO_PROVISIONER)


class CsiStorageCapacity(msgspec.Struct, gc=False, rename="camel"):
    """A CSIStorageCapacity: the capacity for new volumes of a class on some nodes."""

    metadata: Metadata
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def max_volume_bytes(self) -> int:
        """Bytes of the largest volume that can be provisioned, as far as known."""
        amount = self.maximum_volume_size
        if amount is None:
            amount = self.capacity
        return -1 if amount is None else _storage_bytes({"storage": amount})


class CsiDriverSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a CSI driver."""

    storage_capacity: bool = False
    """Whether the driver publishes its storage capacity."""


class CsiDriver(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: CsiDriverSpec = CsiDriverSpec()


class VolumeNodeResources(msgspec.Struct, frozen=True, gc=False):
    """The maximum number of volumes of a driver on a node; None for no limit."""

    count: int | None = None


class CsiNodeDriver(msgspec.Struct, frozen=True, gc=False):
    """A CSI driver on a node."""

    name: str
    allocatable: VolumeNodeResources | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The CSI drivers of a node; kubelet writes null before the first one registers."""

    drivers: tuple[CsiNodeDriver, ...] | None = None


class CsiNode(msgspec.Struct, gc=False):
    """A CSINode: the attach limits of the node of the same name."""

    metadata: Metadata
    spec: CsiNodeSpec = CsiNodeSpec()


def _storage_bytes(amounts: Quantities) -> int:
    try:
        return quantity_from_json(amounts.get("storage", 0)).value
    except QuantityError:
        return 0


PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim
)
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass
)
CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, CsiStorageCapacity
)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, CsiDriver)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, CsiNode)
