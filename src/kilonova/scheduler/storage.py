"""Claims of storage, volumes, classes, and what nodes can attach, as the scheduler sees them."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.api.quantity import QuantityError, from_json
from kilonova.kube import Resource
from kilonova.scheduler.objects import LabelSelector, NodeSelector, Quantities, Resources

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a claim asks for."""

    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether a claim has its volume."""

    phase: str = "Pending"


class VolumeClaim(msgspec.Struct, gc=False):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def storage_class(self) -> str:
        """The name of its class; empty where it wants none."""
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name or "")

    @property
    def size(self) -> int:
        """Bytes that it asks for."""
        return _bytes(self.spec.resources.requests)

    @property
    def is_bound(self) -> bool:
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class ClaimReference(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is for; without a uid it is for any of that name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which nodes can reach a volume."""

    required: NodeSelector | None = None


class CsiSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a driver knows a volume by."""

    driver: str
    volume_handle: str = ""


class VolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a volume is."""

    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None
    volume_attributes_class_name: str | None = None


class VolumeStatus(msgspec.Struct, frozen=True, gc=False):
    """Whether a volume is free."""

    phase: str = "Pending"


class PersistentVolume(msgspec.Struct, gc=False):
    """A PersistentVolume."""

    metadata: Metadata
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def storage_class(self) -> str:
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return _bytes(self.spec.capacity)

    @property
    def nodes(self) -> NodeSelector | None:
        """The nodes that can reach it; None: all."""
        return self.spec.node_affinity.required if self.spec.node_affinity else None


class TopologyValues(msgspec.Struct, frozen=True, gc=False):
    """Values that a label of a node may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Labels that a node must have, all of them."""

    match_label_expressions: tuple[TopologyValues, ...] = ()


class StorageClass(msgspec.Struct, gc=False, rename="camel"):
    """A StorageClass."""

    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits_for_pod(self) -> bool:
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def provisions(self) -> bool:
        """Whether volumes are made for claims."""
        return self.provisioner not in ("", NO_PROVISIONER)


class StorageCapacity(msgspec.Struct, gc=False, rename="camel"):
    """A CSIStorageCapacity: what is left to make volumes of a class from, on some nodes."""

    metadata: Metadata
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def largest(self) -> int:
        """Bytes of the largest volume that could be made, as far as is known."""
        amount = self.maximum_volume_size
        if amount is None:
            amount = self.capacity
        return -1 if amount is None else _bytes({"storage": amount})


class StorageDriverSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a driver does."""

    storage_capacity: bool = False
    """Whether it says how much is left."""


class StorageDriver(msgspec.Struct, gc=False):
    """A CSIDriver."""

    metadata: Metadata
    spec: StorageDriverSpec = StorageDriverSpec()


class AttachLimit(msgspec.Struct, frozen=True, gc=False):
    """How many volumes of a driver a node can have; None is any number."""

    count: int | None = None


class CsiDriver(msgspec.Struct, frozen=True, gc=False):
    """A driver of volumes on a node."""

    name: str
    allocatable: AttachLimit | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The drivers of a node."""

    drivers: tuple[CsiDriver, ...] = ()


class CsiNode(msgspec.Struct, gc=False):
    """A CSINode: what the node of that name can attach."""

    metadata: Metadata
    spec: CsiNodeSpec = CsiNodeSpec()


def _bytes(amounts: Quantities) -> int:
    try:
        return from_json(amounts.get("storage", 0)).value
    except QuantityError:
        return 0


VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, VolumeClaim
)
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass
)
STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, StorageCapacity
)
STORAGE_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, StorageDriver)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, CsiNode)
