"""Which resources there are, as discovery tells it: for controllers of any kind."""

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from kilonova.kube import Client, Resource
from kilonova.kube.transport import Request

T = TypeVar("T")

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Kind(msgspec.Struct, frozen=True, rename="camel"):
    group: str = ""
    version: str = ""
    kind: str = ""


class _ResourceEntry(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str
    verbs: tuple[str, ...]
    response_kind: _Kind = _Kind()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_ResourceEntry, ...] = ()


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    versions: tuple[_Version, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    items: tuple[_Group, ...] = ()


async def served_resources(client: Client, as_type: type[T], *verbs: str) -> list[Resource[T]]:
    """Every resource that has all of `verbs`, in the preferred version of its group."""
    found: dict[tuple[str, str], Resource[T]] = {}
    for path in ("/api", "/apis"):
        reply = await client.send(Request("GET", path, headers={"accept": _AGGREGATED}))
        for resource in _resources(msgspec.json.decode(reply.body, type=_Groups), as_type, verbs):
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())


def _resources(groups: _Groups, as_type: type[T], verbs: tuple[str, ...]) -> Iterator[Resource[T]]:
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
