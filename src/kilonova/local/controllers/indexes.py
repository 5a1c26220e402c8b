"""Indexes of the shared caches that several controllers use: added once, found by name."""

from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Protocol, TypeVar

from kilonova.api.meta import Metadata
from kilonova.kube import IndexValues, Reflector, Store
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.controllers.workshop import Workshop

BY_CONTROLLER = "controller"
"""Objects under the uid of their controller; those without one under `orphans(…)`."""


class Controlled(Protocol):
    """An object that may have a controller."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T")


def pods_by_controller(workshop: Workshop) -> Reflector[Pod]:
    """The shared cache of pods, with the index `BY_CONTROLLER`; whoever asks first adds it."""
    pods = workshop.cache(PODS)
    add_index_once(pods.store, BY_CONTROLLER, controller_of)
    return pods


def add_index_once(store: Store[T], name: str, values: IndexValues[T]) -> None:
    """Add an index of a shared cache, unless another controller has added it."""
    with suppress(ValueError):
        store.add_index(name, values)


def orphans(namespace: str, label: tuple[str, str] | None = None) -> Hashable:
    """The value under which objects of a namespace are found that nobody controls.

    With a label, only those that have it: a set that selects by a label need not see the others.
    """
    return ("orphans", namespace, label)


def controller_of(obj: Controlled) -> Iterable[Hashable]:
    """The values of an object in `BY_CONTROLLER`."""
    known = obj.metadata
    if (owner := known.controller) is not None:
        return (owner.uid,)
    labels = (orphans(known.namespace, label) for label in known.labels.items())
    return (orphans(known.namespace), *labels)


BY_NODE = "node"
"""Pods under the name of the node that they are bound to."""


def pods_by_node(workshop: Workshop) -> Reflector[Pod]:
    """The shared cache of pods, with the index `BY_NODE`; whoever asks first adds it."""
    pods = workshop.cache(PODS)
    index_by_node(pods.store)
    return pods


def index_by_node(pods: Store[Pod]) -> None:
    """Add the index `BY_NODE` to a cache of pods, unless it is there."""
    add_index_once(pods, BY_NODE, lambda pod: (pod.spec.node_name,) * bool(pod.spec.node_name))
