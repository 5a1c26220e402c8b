"""API discovery for controllers that work on resources of any kind."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from kilonova.kube import Client, Resource
from kilonova.kube.client.transport import Request

T = TypeVar("T")

_AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _ResponseKind(msgspec.Struct, frozen=True, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""


class _ResourceEntry(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str
    verbs: tuple[str, ...]
    response_kind: _ResponseKind = _ResponseKind()


class _VersionDiscovery(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_ResourceEntry, ...] = ()


class _GroupMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _GroupDiscovery(msgspec.Struct, frozen=True):
    metadata: _GroupMetadata = _GroupMetadata()
    versions: tuple[_VersionDiscovery, ...] = ()


class _GroupDiscoveryList(msgspec.Struct, frozen=True):
    items: tuple[_GroupDiscovery, ...] = ()


async def discover_resources(client: Client, as_type: type[T], *verbs: str) -> list[Resource[T]]:
    """Every resource with all of `verbs`, in the preferred version of its group."""
    found: dict[tuple[str, str], Resource[T]] = {}
    for path in ("/api", "/apis"):
        reply = await client.send(Request("GET", path, headers={"accept": _AGGREGATED_DISCOVERY}))
        for resource in _iter_resources(
            msgspec.json.decode(reply.body, type=_GroupDiscoveryList), as_type, verbs
        ):
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())


def _iter_resources(
    groups: _GroupDiscoveryList, as_type: type[T], verbs: tuple[str, ...]
) -> Iterator[Resource[T]]:
    for group in groups.items:
        for version in group.versions:
            for entry in version.resources:
                if set(verbs) <= set(entry.verbs):
                    yield Resource(
                        group.metadata.name,
                        version.version,
                        entry.resource,
                        entry.response_kind.kind,
                        entry.scope == "Namespaced",
                        as_type,
                    )
