"""A resource of the API, and the type its objects are decoded to."""

import builtins
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from kilonova.api.json import JsonObject

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A resource of the API and a type for its objects.

    `type` may be complete (one of our Structs), a projection with only the used fields, or `dict`
    for unstructured objects.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`pods`, `deployments.apps`: unique in a cluster, for logs and metrics."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def as_type(self, projection: builtins.type[U]) -> "Resource[U]":
        """The same resource, decoded to another type."""
        return replace(self, type=projection)  # type: ignore[arg-type]

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str = ""
    ) -> str:
        """`/api/v1/namespaces/x/pods/y/status` and similar; without a namespace, across all of
        them."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def unstructured_resource(
    group: str, version: str, plural: str, kind: str, namespaced: bool
) -> Resource[JsonObject]:
    """A resource whose objects stay plain JSON."""
    objects: type[JsonObject] = dict
    return Resource(group, version, plural, kind, namespaced, objects)
