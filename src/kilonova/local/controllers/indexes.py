"""Indexes of the shared caches that several controllers use: added once, found by name."""

from collections.abc import Hashable, Iterable
from contextlib import suppress

from kilonova.kube import Reflector
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.controllers.workshop import Workshop

BY_CONTROLLER = "controller"
"""Pods under the uid of their controller; those without one under `orphans(namespace)`."""


def pods_by_controller(workshop: Workshop) -> Reflector[Pod]:
    """The shared cache of pods, with the index `BY_CONTROLLER`; whoever asks first adds it."""
    pods = workshop.cache(PODS)
    with suppress(ValueError):  # there already: another controller has asked
        pods.store.add_index(BY_CONTROLLER, controller_of)
    return pods


def orphans(namespace: str) -> Hashable:
    """The value under which pods of a namespace are found that nobody controls."""
    return ("orphans", namespace)


def controller_of(obj: Pod) -> Iterable[Hashable]:
    """The values of a pod in `BY_CONTROLLER`."""
    owner = obj.metadata.controller
    return (owner.uid if owner is not None else orphans(obj.metadata.namespace),)
