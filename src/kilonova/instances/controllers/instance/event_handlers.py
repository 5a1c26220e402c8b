"""Which instances to reconcile after a change of another object."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.instances.caches import BY_NODE, Caches, list_instance_keys
from kilonova.instances.resources import Node
from kilonova.kube import ChangeWatch, Key, Watch
from kilonova.kube.status import find_condition


class InstanceEventHandlers:
    """Maps changes to the keys of the instances that they affect."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def list_watches(self) -> list[Watch[Any] | ChangeWatch[Any]]:
        """The watches of the controller."""
        caches = self._caches
        return [
            Watch(caches.instances),
            Watch(caches.pods, lambda each: list_instance_keys(each.metadata)),
            Watch(caches.gangs, lambda each: list_instance_keys(each.metadata)),
            Watch(caches.reservations, lambda each: list_instance_keys(each.metadata)),
            Watch(caches.services, lambda each: list_instance_keys(each.metadata)),
            ChangeWatch(caches.nodes, self.on_node),
            # Levels are read when instances are reconciled for another reason.
            ChangeWatch(caches.topologies, lambda old, new: ()),
        ]

    def on_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """The instances with a pod on a node of which something changed that they depend on."""
        known = new or old
        if known is None or (
            old is not None and new is not None and _relevant_facts(old) == _relevant_facts(new)
        ):
            return
        for pod in self._caches.pods.store.by_index(BY_NODE, known.metadata.name):
            yield from list_instance_keys(pod.metadata)


def _relevant_facts(node: Node) -> object:
    """What specifies where a node is, and whether pods can run on it; heartbeats do not change
    it."""
    ready = find_condition(node.status.conditions, "Ready")
    return (
        node.metadata.labels,
        node.metadata.annotations.get(TOPOLOGY),
        node.metadata.deletion_timestamp,
        node.spec,
        None if ready is None else ready.status,
    )
