"""What all pods of the node share: runtime, clients, addresses, GPUs and directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Client, Store
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.clock import Clock
from kilonova.local.processnode.cri.api import Runtime
from kilonova.local.processnode.images import ImageTable
from kilonova.local.processnode.kubelet.machine.capabilities import RuntimeCapabilities
from kilonova.local.processnode.kubelet.machine.devices import DeviceManager
from kilonova.local.processnode.kubelet.objects import PODS, Pod
from kilonova.local.processnode.kubelet.pods.addresses import AddressAllocator
from kilonova.local.processnode.kubelet.probes.prober import Prober
from kilonova.local.processnode.kubelet.volumes.persistent_volumes import PersistentVolumeResolver
from kilonova.local.processnode.kubelet.volumes.watched_objects import WatchedObjectCache
from kilonova.local.processnode.services import Service

HOST_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class KubeletContext:
    """Dependencies of pod workers."""

    node: str
    runtime: Runtime
    capabilities: RuntimeCapabilities
    client: Client
    clock: Clock
    recorder: EventRecorder
    pods_directory: Path
    """The parent of the pod directories, which are named by uid."""
    addresses: AddressAllocator
    devices: DeviceManager
    object_cache: WatchedObjectCache
    prober: Prober
    services: Store[Service]
    allowed_paths: Sequence[Path]
    persistent_volumes: PersistentVolumeResolver
    allocatable: Mapping[str, str]
    search_path: str
    """The PATH in which commands are looked up, unless a container sets its own."""
    images: ImageTable

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.clock.now().timestamp()

    def pod_directory(self, uid: str) -> Path:
        return self.pods_directory / uid

    def record_event(
        self, pod: Pod, reason: str, message: str, *, container: str = "", warning: bool = False
    ) -> None:
        """Record an event about a pod, or about one of its containers."""
        group = "containers"
        if pod.is_init(container):
            group = "initContainers"
        elif pod.is_ephemeral(container):
            group = "ephemeralContainers"
        metadata = pod.metadata
        about = ObjectReference(
            PODS.api_version,
            PODS.kind,
            metadata.name,
            metadata.namespace,
            metadata.uid,
            f"spec.{group}{{{container}}}" if container else "",
        )
        self.recorder.event(about, reason, message, warning=warning)


def log_path(directory: Path, container: str, attempt: int) -> Path:
    """The log file of a run, in its pod's directory."""
    return directory / "logs" / container / f"{attempt}.log"
