"""Assembly of the process node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Client, Reflector, Runnable
from kilonova.kube.events import EventRecorder
from kilonova.local.clock import Clock
from kilonova.local.processnode.cri.api import Runtime
from kilonova.local.processnode.executables import get_search_path
from kilonova.local.processnode.images import ImageTable
from kilonova.local.processnode.kubelet.context import KubeletContext
from kilonova.local.processnode.kubelet.machine.capabilities import RuntimeCapabilities
from kilonova.local.processnode.kubelet.machine.devices import DeviceManager
from kilonova.local.processnode.kubelet.machine.gpus import InstalledGpus
from kilonova.local.processnode.kubelet.machine.info import read_machine_info
from kilonova.local.processnode.kubelet.machine.node_object import build_capacity
from kilonova.local.processnode.kubelet.machine.registration import KubeletRegistration
from kilonova.local.processnode.kubelet.node import ProcessNode
from kilonova.local.processnode.kubelet.objects import PODS
from kilonova.local.processnode.kubelet.pods.addresses import AddressAllocator, select_pod_network
from kilonova.local.processnode.kubelet.probes.prober import Prober
from kilonova.local.processnode.kubelet.server import ProcessKubelet
from kilonova.local.processnode.kubelet.volumes.persistent_volumes import PersistentVolumeResolver
from kilonova.local.processnode.kubelet.volumes.watched_objects import WatchedObjectCache
from kilonova.local.processnode.services import SERVICES


@dataclass(frozen=True, slots=True)
class ProcessNodeAssembly:
    """A process node: its name, its runnables, and its kubelet API."""

    name: str
    node: ProcessNode
    kubelet: ProcessKubelet
    parts: tuple[Runnable, ...]


def build_process_node(
    client_factory: Callable[[str], Client],
    clock: Clock,
    runtime: Runtime,
    data: Path,
    *,
    gpus: InstalledGpus,
    images: ImageTable,
    allowed_paths: Sequence[Path] = (),
) -> ProcessNodeAssembly:
    """This machine as a node of the cluster in `data`; `client` returns a client for a user."""
    folder = data / "pods"
    folder.mkdir(parents=True, exist_ok=True)
    # It holds Secrets, and the data directory may have been created with wider permissions.
    folder.chmod(0o700)
    facts = read_machine_info(data)
    devices = DeviceManager(gpus.gpus)
    capacity = build_capacity(facts, devices.capacity)
    account = client_factory(f"system:node:{facts.name}")
    network = select_pod_network(data)
    pods = Reflector(account, PODS, field_selector=f"spec.nodeName={facts.name}")
    services = Reflector(account, SERVICES)
    recorder = EventRecorder(
        account, "kubelet", instance=facts.name, clock=clock.monotonic, wall=clock.now
    )
    kubelet_context = KubeletContext(
        node=facts.name,
        runtime=runtime,
        capabilities=RuntimeCapabilities(runtime),
        client=account,
        clock=clock,
        recorder=recorder,
        pods_directory=folder,
        addresses=AddressAllocator(network),
        devices=devices,
        object_cache=WatchedObjectCache(account),
        prober=Prober(runtime),
        services=services.store,
        allowed_paths=allowed_paths,
        persistent_volumes=PersistentVolumeResolver(account, data / "volumes"),
        allocatable=capacity,
        search_path=get_search_path(),
        images=images,
    )
    registration = KubeletRegistration(account, clock, facts, gpus, capacity, network, data)
    node = ProcessNode(kubelet_context, registration, pods, services)
    return ProcessNodeAssembly(
        facts.name, node, ProcessKubelet(node), (recorder, pods, services, node)
    )
