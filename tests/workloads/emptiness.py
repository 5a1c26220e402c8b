"""Empty lists and maps in what the operator writes: what says nothing is left out."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector, Resource
from tests.workloads.ground import AUTOSCALERS, CLAIMS, CLIQUES, GANGS, GROUPS, PODS, SERVICES, SETS

_OF_OTHERS = frozenset({"podSpec", "managedFields"})
"""What people wrote, and the server's own books."""
_REQUIRED = frozenset({"podgroups", "podReferences"})
"""Lists that the schema of PodGangs requires."""
_OF_THE_SERVER = frozenset({"resources", "securityContext", "emptyDir"})
"""Maps in pods that Kubernetes itself writes without anything in them."""
_OWN = (CLIQUES, GROUPS, GANGS)
_FOREIGN = (SERVICES, AUTOSCALERS, CLAIMS, PODS)
"""Kinds whose status others write."""


def empty_fields(value: Any, path: str = "") -> Iterator[str]:
    """Paths of the empty lists and maps in an object."""
    if isinstance(value, dict):
        for name, item in value.items():
            at = f"{path}.{name}".removeprefix(".")
            if name in _OF_OTHERS:
                continue
            if item in ({}, []) and name not in _REQUIRED:
                yield at
            yield from empty_fields(item, at)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from empty_fields(item, f"{path}[{index}]")


def empty_fields_stored(resource: Resource[Any], obj: JsonObject) -> list[str]:
    """Empty fields of an object on a server that the operator has written."""
    if resource is SETS:
        parts = {"status": obj.get("status", {"": ""})}
    elif resource in _OWN:
        parts = obj
    else:
        parts = {"metadata": obj["metadata"], "spec": obj["spec"]}
    found = list(empty_fields(parts))
    if resource is PODS:
        found = [each for each in found if each.rpartition(".")[2] not in _OF_THE_SERVER]
    return found


class EmptyFields:
    """Follows all that the operator writes in a namespace: nothing between two looks is missed."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.found: set[str] = set()
        """Kind and path of every empty field that there ever was."""
        self.reflectors = [self._follow(client, each, namespace) for each in _KINDS]

    def _follow(self, client: Client, resource: Resource[Any], namespace: str) -> Reflector[Any]:
        def look(_old: JsonObject | None, new: JsonObject | None) -> None:
            if new is not None:
                fields = empty_fields_stored(resource, new)
                self.found |= {f"{resource.kind}: {each}" for each in fields}

        reflector = Reflector(client, resource, namespace)
        reflector.store.subscribe(look)
        return reflector


_KINDS = (SETS, *_OWN, *_FOREIGN)
