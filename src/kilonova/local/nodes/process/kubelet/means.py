"""What all pods of the node share: the runtime, clients, addresses, GPUs, and where things lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Client, Store
from kilonova.kube.events import Recorder, Reference
from kilonova.local.clock import Clock
from kilonova.local.nodes.process.kubelet.abilities import Abilities
from kilonova.local.nodes.process.kubelet.addresses import Addresses
from kilonova.local.nodes.process.kubelet.checks import Checks
from kilonova.local.nodes.process.kubelet.claimedvolumes import ClaimedVolumes
from kilonova.local.nodes.process.kubelet.devices import Devices
from kilonova.local.nodes.process.kubelet.pods import PODS, Pod
from kilonova.local.nodes.process.kubelet.sources import FollowedObjects
from kilonova.local.nodes.process.runtime import Runtime
from kilonova.local.nodes.process.services import Service

HOST_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Means:
    """What workers work with."""

    node: str
    runtime: Runtime
    abilities: Abilities
    client: Client
    clock: Clock
    recorder: Recorder
    folder: Path
    """In it each pod has a folder, by its uid."""
    addresses: Addresses
    devices: Devices
    objects: FollowedObjects
    checks: Checks
    services: Store[Service]
    allowed_paths: Sequence[Path]
    claimed: ClaimedVolumes
    allocatable: Mapping[str, str]
    path: str
    """Where commands are looked for, unless a container says otherwise."""

    def now(self) -> float:
        """Seconds since 1970."""
        return self.clock.now().timestamp()

    def pod_folder(self, uid: str) -> Path:
        return self.folder / uid

    def tell(
        self, pod: Pod, reason: str, message: str, *, container: str = "", warning: bool = False
    ) -> None:
        """Report an event about a pod, or one of its containers."""
        group = "containers"
        if pod.is_init(container):
            group = "initContainers"
        elif pod.is_ephemeral(container):
            group = "ephemeralContainers"
        metadata = pod.metadata
        about = Reference(
            PODS.api_version,
            PODS.kind,
            metadata.name,
            metadata.namespace,
            metadata.uid,
            f"spec.{group}{{{container}}}" if container else "",
        )
        self.recorder.event(about, reason, message, warning=warning)


def log_file(folder: Path, container: str, attempt: int) -> Path:
    """Where a run's output is, in its pod's folder."""
    return folder / "logs" / container / f"{attempt}.log"
