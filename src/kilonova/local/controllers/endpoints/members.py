"""Services and the pods behind them, kept together as both change."""

from collections.abc import Callable, Iterator

from kilonova.kube import Reflector
from kilonova.kube.identity import Key
from kilonova.local.controllers.endpoints.membership import Membership
from kilonova.local.controllers.endpoints.objects import SERVICES, Service
from kilonova.local.controllers.objects import NODES, PODS, Node, Pod
from kilonova.local.controllers.workshop import Workshop

ZONE = "topology.kubernetes.io/zone"


class Members:
    """The pods behind each Service. Shared: `Workshop.once(Members)`."""

    def __init__(self, workshop: Workshop) -> None:
        self.services: Reflector[Service] = workshop.cache(SERVICES)
        self.pods: Reflector[Pod] = workshop.cache(PODS)
        self.nodes: Reflector[Node] = workshop.cache(NODES)
        self._membership = Membership()
        self._listeners: list[Callable[[Key], None]] = []
        self.services.store.subscribe(self._service_changed)
        self.pods.store.subscribe(self._pod_changed)
        self.nodes.store.subscribe(self._node_changed)

    def tell(self, listener: Callable[[Key], None]) -> None:
        """Call with the key of every Service that a change of pods or nodes concerns."""
        self._listeners.append(listener)

    def of(self, service: Service) -> Iterator[Pod]:
        """The pods that a Service selects, in order of arrival."""
        key = (service.metadata.namespace, service.metadata.name)
        for member in self._membership.members(key):
            pod = self.pods.store.get(member)
            if pod is not None:
                yield pod

    def zone(self, pod: Pod) -> str | None:
        """The zone of the pod's node; None if it is in none."""
        node = self.nodes.store.get(("", pod.spec.node_name))
        return node.metadata.labels.get(ZONE) if node is not None else None

    def is_on_a_node(self, pod: Pod) -> bool:
        return ("", pod.spec.node_name) in self.nodes.store

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        key = (service.metadata.namespace, service.metadata.name)
        selector = new.spec.selector if new is not None and new.selects else None
        known = self.pods.store
        self._membership.set_selector(
            key, selector, ((known.key_of(pod), pod.metadata.labels) for pod in known.objects())
        )

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        concerned: list[Key] = []
        if old is not None and (new is None or new.metadata.labels != old.metadata.labels):
            key = (old.metadata.namespace, old.metadata.name)
            concerned += self._membership.remove_pod(key, old.metadata.labels)
        if new is not None:
            key = (new.metadata.namespace, new.metadata.name)
            concerned += self._membership.put_pod(key, new.metadata.labels)
        if old is not None and new is not None and not _differs(old, new):
            return
        for service in concerned:
            for listener in self._listeners:
                listener(service)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if old is not None and new is not None:
            if old.metadata.labels.get(ZONE) == new.metadata.labels.get(ZONE):
                return
        elif old is None and not self.pods.synced:
            return  # every Service is looked at when all caches are filled
        for pod in self.pods.store.objects():
            if pod.spec.node_name == node.metadata.name:
                self._pod_changed(None, pod)


def _differs(old: Pod, new: Pod) -> bool:
    """Whether something changed of which endpoints tell."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.status.pod_ips != new.status.pod_ips
        or old.ended != new.ended
        or old.ready != new.ready
        or old.spec.node_name != new.spec.node_name
    )
