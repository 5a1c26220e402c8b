"""Which workloads to reconcile after a change of another object."""

from collections.abc import Iterable, Iterator
from typing import Any

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.api.podgang import PodGang
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.controllers.caches import BY_NODE, Caches, list_workload_keys
from kilonova.gpu.controllers.node_devices import NodeDevices
from kilonova.gpu.controllers.resources import ChildObject
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.scheduler.objects.core_v1 import Node, Pod

NODES_CHANGED: Key = ("", "")
"""Not the key of a workload: nodes have changed, and those that wait may fit now. Many nodes may
change at once; the queue holds this key once."""


class WorkloadEventHandlers:
    """Maps changes to the keys of the workloads that they affect."""

    def __init__(self, caches: Caches, devices: NodeDevices) -> None:
        self._caches = caches
        self._devices = devices

    def list_watches(self) -> list[Watch[Any] | ChangeWatch[Any]]:
        """The watches of the controller."""
        caches = self._caches
        return [
            Watch(caches.workloads),
            Watch(caches.pods, _map_pod),
            Watch(caches.gangs, _map_gang),
            Watch(caches.services, _map_service),
            ChangeWatch(caches.nodes, self.on_node),
        ]

    def on_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """Workloads on a node whose devices have changed; and those that wait for nodes, as a
        larger one may have come."""
        if old is not None and new is not None and _gpu_facts(old) == _gpu_facts(new):
            return
        known = new or old
        if known is None:
            return
        if new is None:
            self._devices.forget(known.metadata.name)
        for pod in self._caches.pods.store.by_index(BY_NODE, known.metadata.name):
            yield from list_workload_keys(pod.metadata)
        if old is not None and new is not None and _size_facts(old) == _size_facts(new):
            return
        yield NODES_CHANGED

    def list_waiting(self) -> Iterator[Key]:
        """The workloads without nodes."""
        store = self._caches.workloads.store
        for workload in store.objects():
            if workload.status.phase in ("Pending", "Scheduling"):
                yield store.key_of(workload)


def _map_pod(pod: Pod) -> Iterator[Key]:
    return list_workload_keys(pod.metadata)


def _map_gang(gang: PodGang) -> Iterator[Key]:
    return list_workload_keys(gang.metadata)


def _map_service(service: ChildObject) -> Iterator[Key]:
    return list_workload_keys(service.metadata)


def _gpu_facts(node: Node) -> object:
    """All that the status of a workload may depend on."""
    return node.metadata.annotations.get(TOPOLOGY), _size_facts(node)


def _size_facts(node: Node) -> object:
    """What decides whether a workload may use a node, and how many GPUs it has."""
    return node.metadata.labels, node.status.allocatable.get(GPU)
