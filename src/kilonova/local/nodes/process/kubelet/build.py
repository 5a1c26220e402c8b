"""Putting the process node together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.kube import Client, Part, Reflector
from kilonova.kube.events import Recorder
from kilonova.local.clock import Clock
from kilonova.local.nodes.process.commands import machine_path
from kilonova.local.nodes.process.kubelet.abilities import Abilities
from kilonova.local.nodes.process.kubelet.addresses import Addresses, pod_network
from kilonova.local.nodes.process.kubelet.answers import ProcessKubelet
from kilonova.local.nodes.process.kubelet.checks import Checks
from kilonova.local.nodes.process.kubelet.claimedvolumes import ClaimedVolumes
from kilonova.local.nodes.process.kubelet.devices import Devices
from kilonova.local.nodes.process.kubelet.machinefacts import read_facts
from kilonova.local.nodes.process.kubelet.means import Means
from kilonova.local.nodes.process.kubelet.node import ProcessNode
from kilonova.local.nodes.process.kubelet.nodeobject import capacity
from kilonova.local.nodes.process.kubelet.pods import PODS
from kilonova.local.nodes.process.kubelet.registration import NodeRegistration
from kilonova.local.nodes.process.kubelet.sources import FollowedObjects
from kilonova.local.nodes.process.runtime import Runtime
from kilonova.local.nodes.process.services import SERVICES


@dataclass(frozen=True, slots=True)
class BuiltNode:
    """A process node: its name, what has to run for it, and who answers for it."""

    name: str
    node: ProcessNode
    kubelet: ProcessKubelet
    parts: tuple[Part, ...]


def build_process_node(
    client: Callable[[str], Client],
    clock: Clock,
    runtime: Runtime,
    data: Path,
    *,
    gpus: Sequence[int],
    allowed_paths: Sequence[Path] = (),
) -> BuiltNode:
    """This machine as a node of the cluster on `data`; `client` gives one for a user."""
    folder = data / "pods"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # Secrets are there, and the data folder may have been anybody's
    facts = read_facts(data, gpus)
    account = client(f"system:node:{facts.name}")
    network = pod_network(data)
    pods = Reflector(account, PODS, fields=f"spec.nodeName={facts.name}")
    services = Reflector(account, SERVICES)
    recorder = Recorder(
        account, "kubelet", instance=facts.name, clock=clock.monotonic, wall=clock.now
    )
    means = Means(
        node=facts.name,
        runtime=runtime,
        abilities=Abilities(runtime),
        client=account,
        clock=clock,
        recorder=recorder,
        folder=folder,
        addresses=Addresses(network),
        devices=Devices(gpus),
        objects=FollowedObjects(account),
        checks=Checks(runtime),
        services=services.store,
        allowed_paths=allowed_paths,
        claimed=ClaimedVolumes(account, data / "volumes"),
        allocatable=capacity(facts),
        path=machine_path(),
    )
    registration = NodeRegistration(account, clock, facts, network, data)
    node = ProcessNode(means, registration, pods, services)
    return BuiltNode(facts.name, node, ProcessKubelet(node), (recorder, pods, services, node))
