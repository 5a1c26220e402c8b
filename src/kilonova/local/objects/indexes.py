"""Indexes of shared pod caches."""

from contextlib import suppress
from typing import TypeVar

from kilonova.kube import IndexFunc, Store
from kilonova.local.objects.core import Pod

BY_NODE = "node"
"""Pods by the name of the node that they are bound to."""

T = TypeVar("T")


def add_index_once(store: Store[T], name: str, values: IndexFunc[T]) -> None:
    """Add an index to a shared cache, unless another component has added it."""
    with suppress(ValueError):
        store.add_index(name, values)


def add_node_index(pods: Store[Pod]) -> None:
    """Add the index `BY_NODE` to a cache of pods, unless it exists."""
    add_index_once(pods, BY_NODE, lambda pod: (pod.spec.node_name,) * bool(pod.spec.node_name))
