"""Indexes of the shared caches that several controllers use."""

from collections.abc import Hashable, Iterable
from typing import Protocol

from kilonova.api.meta import Metadata
from kilonova.kube import Reflector
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import add_index_once, add_node_index

BY_CONTROLLER = "controller"
"""Objects by the uid of their controller; those without one by `orphan_index_key(…)`."""


class ControlledObject(Protocol):
    """An object that may have a controller."""

    @property
    def metadata(self) -> Metadata: ...


def pods_by_controller(context: ControllerContext) -> Reflector[Pod]:
    """The shared cache of pods with the index `BY_CONTROLLER`, added on first use."""
    pods = context.informer(PODS)
    add_index_once(pods.store, BY_CONTROLLER, index_by_controller)
    return pods


def orphan_index_key(namespace: str, label: tuple[str, str] | None = None) -> Hashable:
    """The index value of objects of a namespace without a controller.

    With a label, only those that have it: a workload that selects by a label need not see the
    others.
    """
    return ("orphans", namespace, label)


def index_by_controller(obj: ControlledObject) -> Iterable[Hashable]:
    """The values of an object in `BY_CONTROLLER`."""
    metadata = obj.metadata
    if (owner := metadata.controller) is not None:
        return (owner.uid,)
    labels = (orphan_index_key(metadata.namespace, label) for label in metadata.labels.items())
    return (orphan_index_key(metadata.namespace), *labels)


def pods_by_node(context: ControllerContext) -> Reflector[Pod]:
    """The shared cache of pods with the index `BY_NODE`, added on first use."""
    pods = context.informer(PODS)
    add_node_index(pods.store)
    return pods
