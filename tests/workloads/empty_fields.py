"""Empty lists and maps in objects that the operator writes: empty fields must be omitted."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector, Resource
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CLIQUES,
    GANGS,
    PODS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
)

_FOREIGN_FIELDS = frozenset({"podSpec", "managedFields"})
"""What people wrote, and the server's own books."""
_REQUIRED = frozenset({"podgroups", "podReferences"})
"""Lists that the schema of PodGangs requires."""
_SERVER_FIELDS = frozenset({"resources", "securityContext", "emptyDir"})
"""Maps in pods that Kubernetes itself writes without anything in them."""
_OWNED_KINDS = (CLIQUES, SCALING_GROUPS, GANGS)
_FOREIGN_KINDS = (SERVICES, AUTOSCALERS, RESOURCE_CLAIMS, PODS)
"""Kinds whose status others write."""


def find_empty_fields(value: Any, path: str = "") -> Iterator[str]:
    """Paths of the empty lists and maps in an object."""
    if isinstance(value, dict):
        for name, item in value.items():
            at = f"{path}.{name}".removeprefix(".")
            if name in _FOREIGN_FIELDS:
                continue
            if item in ({}, []) and name not in _REQUIRED:
                yield at
            yield from find_empty_fields(item, at)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from find_empty_fields(item, f"{path}[{index}]")


def find_stored_empty_fields(resource: Resource[Any], obj: JsonObject) -> list[str]:
    """Empty fields of a stored object that the operator has written."""
    if resource is SETS:
        parts = {"status": obj.get("status", {"": ""})}
    elif resource in _OWNED_KINDS:
        parts = obj
    else:
        parts = {"metadata": obj["metadata"], "spec": obj["spec"]}
    found = list(find_empty_fields(parts))
    if resource is PODS:
        found = [each for each in found if each.rpartition(".")[2] not in _SERVER_FIELDS]
    return found


class EmptyFieldWatcher:
    """Watches all objects that the operator writes in a namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.found: set[str] = set()
        """Kind and path of every empty field that there ever was."""
        self.reflectors = [self._build_reflector(client, each, namespace) for each in _KINDS]

    def _build_reflector(
        self, client: Client, resource: Resource[Any], namespace: str
    ) -> Reflector[Any]:
        def look(_old: JsonObject | None, new: JsonObject | None) -> None:
            if new is not None:
                fields = find_stored_empty_fields(resource, new)
                self.found |= {f"{resource.kind}: {each}" for each in fields}

        reflector = Reflector(client, resource, namespace)
        reflector.store.add_event_handler(look)
        return reflector


_KINDS = (SETS, *_OWNED_KINDS, *_FOREIGN_KINDS)
