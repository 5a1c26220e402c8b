"""Services and the pods they select, updated as both change."""

from collections.abc import Callable, Iterator

from kilonova.api.nodes.topology_labels import ZONE
from kilonova.kube import Reflector
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.endpoints.objects import SERVICES, Service
from kilonova.local.controllers.endpoints.selector_index import SelectorIndex
from kilonova.local.objects.core import NODES, PODS, Node, Pod


class ServicePods:
    """The pods of each Service. Shared: `ControllerContext.shared_instance(ServicePods)`."""

    def __init__(self, context: ControllerContext) -> None:
        self.services: Reflector[Service] = context.informer(SERVICES)
        self.pods: Reflector[Pod] = context.informer(PODS)
        self.nodes: Reflector[Node] = context.informer(NODES)
        self._selector_index = SelectorIndex()
        self._listeners: list[Callable[[Key], None]] = []
        self.services.store.add_event_handler(self._handle_service_change)
        self.pods.store.add_event_handler(self._handle_pod_change)
        self.nodes.store.add_event_handler(self._handle_node_change)

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call `listener` with the key of every Service affected by a change of pods or nodes."""
        self._listeners.append(listener)

    def pods_of(self, service: Service) -> Iterator[Pod]:
        """The pods that a Service selects, in order of arrival."""
        key = (service.metadata.namespace, service.metadata.name)
        for member in self._selector_index.selected_pods(key):
            pod = self.pods.store.get(member)
            if pod is not None:
                yield pod

    def zone_of(self, pod: Pod) -> str | None:
        """The zone of the pod's node; None if it has none."""
        node = self.nodes.store.get(("", pod.spec.node_name))
        return node.metadata.labels.get(ZONE) if node is not None else None

    def has_node(self, pod: Pod) -> bool:
        return ("", pod.spec.node_name) in self.nodes.store

    def _handle_service_change(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        key = (service.metadata.namespace, service.metadata.name)
        selector = new.spec.selector if new is not None and new.has_selector else None
        pods = self.pods.store
        self._selector_index.set_selector(
            key,
            selector,
            ((pods.key_of(pod), pod.metadata.labels) for pod in pods.objects()),
        )

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        concerned: list[Key] = []
        if old is not None and (new is None or new.metadata.labels != old.metadata.labels):
            key = (old.metadata.namespace, old.metadata.name)
            concerned += self._selector_index.remove_pod(key, old.metadata.labels)
        if new is not None:
            key = (new.metadata.namespace, new.metadata.name)
            concerned += self._selector_index.put_pod(key, new.metadata.labels)
        if old is not None and new is not None and not _has_endpoint_change(old, new):
            return
        for service in concerned:
            for listener in self._listeners:
                listener(service)

    def _handle_node_change(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if old is not None and new is not None:
            if old.metadata.labels.get(ZONE) == new.metadata.labels.get(ZONE):
                return
        elif old is None and not self.pods.has_synced:
            return  # every Service is reconciled once all caches have synced
        for pod in self.pods.store.objects():
            if pod.spec.node_name == node.metadata.name:
                self._handle_pod_change(None, pod)


def _has_endpoint_change(old: Pod, new: Pod) -> bool:
    """Whether a field changed that endpoints contain."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.pod_ips != new.status.pod_ips
        or old.is_terminal != new.is_terminal
        or old.is_ready != new.is_ready
        or old.spec.node_name != new.spec.node_name
    )
