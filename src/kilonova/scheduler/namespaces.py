"""Keeps the labels of namespaces, which pods may select the namespaces of others by."""

from collections.abc import Hashable, Iterable

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource, Store
from kilonova.scheduler.devices import Reread
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.peers import needs_namespaces

_BY_NEED = "labels of namespaces"


class Namespace(msgspec.Struct, gc=False):
    """A namespace."""

    metadata: Metadata


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceLabels:
    """The labels of each namespace. Pods to which they matter are read anew when some change."""

    def __init__(self, namespaces: Store[Namespace], pods: Store[Pod]) -> None:
        self.labels: dict[str, dict[str, str]] = {}
        self._namespaces = namespaces
        self._pods = pods
        self._reread: Reread = lambda _pods, _gained: None
        pods.add_index(_BY_NEED, _needs)

    def attach(self, reread: Reread) -> None:
        """Begins to keep them."""
        self._reread = reread
        self._namespaces.subscribe(self._changed)

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self.labels[new.metadata.name] = new.metadata.labels
        elif old is not None:
            del self.labels[old.metadata.name]
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._reread([pod.key for pod in self._pods.find(_BY_NEED, True)], False)


def _needs(pod: Pod) -> Iterable[Hashable]:
    return (True,) if needs_namespaces(pod) else ()
