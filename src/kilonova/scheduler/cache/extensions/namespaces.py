"""Labels of namespaces, for the `namespaceSelector` of pod affinity terms."""

from collections.abc import Hashable, Iterable

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource, Store
from kilonova.scheduler.convert.pods.affinity import uses_namespace_selector
from kilonova.scheduler.convert.pods.changes import RereadPods
from kilonova.scheduler.objects.core_v1 import Pod

_BY_NAMESPACE_SELECTOR = "namespace selector"


class Namespace(msgspec.Struct, gc=False):
    metadata: Metadata


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceCache:
    """The labels of each namespace. Pods with a `namespaceSelector` are read again when they
    change."""

    def __init__(self, namespaces: Store[Namespace], pods: Store[Pod]) -> None:
        self.labels: dict[str, dict[str, str]] = {}
        self._namespaces = namespaces
        self._pods = pods
        self._reread_pods: RereadPods = lambda _pods, _capacity_freed: None
        pods.add_index(_BY_NAMESPACE_SELECTOR, _uses_namespace_selector)

    def attach(self, reread_pods: RereadPods) -> None:
        """Start following the informer."""
        self._reread_pods = reread_pods
        self._namespaces.add_event_handler(self._namespace_changed)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.labels[new.metadata.name] = new.metadata.labels
        elif old is not None:
            del self.labels[old.metadata.name]
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._reread_pods(
                [pod.key for pod in self._pods.by_index(_BY_NAMESPACE_SELECTOR, True)], False
            )


def _uses_namespace_selector(pod: Pod) -> Iterable[Hashable]:
    return (True,) if uses_namespace_selector(pod) else ()
