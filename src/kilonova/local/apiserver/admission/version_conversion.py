"""Converts the objects of a write to the versions that webhooks and policies expect.

A write is in the storage version. A webhook or policy may refer to another version of the same kind
(`autoscaling/v1` for `v2`, a custom kind's `v1beta1` for its `v1`), and receives that.
"""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.apiserver.schema.checker import schema_checker
from kilonova.local.apiserver.served_kinds import ServedKinds, storage_resource


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """A group, a version and a kind."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def request_kind(kind: Kind, subresource: str) -> GroupVersionKind:
    """The kind of an object sent to a resource or subresource: a Scale for `deployments/scale`."""
    part = kind.subresources.get(subresource)
    if part is None or part.kind == kind.kind:
        return GroupVersionKind(kind.group, kind.version, kind.kind)
    return GroupVersionKind(part.group, part.version, part.kind)


class VersionConverter:
    """The kinds that share a storage, and their conversion."""

    def __init__(self, served_kinds: ServedKinds) -> None:
        self._served_kinds = served_kinds
        self._revision = -1
        self._kinds_by_storage: dict[str, list[Kind]] = {}

    def equivalent_kinds(self, kind: Kind) -> list[Kind]:
        """All kinds that share the storage of `kind`, including itself."""
        if self._revision != self._served_kinds.revision:
            self._revision = self._served_kinds.revision
            self._kinds_by_storage = {}
            for each in self._served_kinds.kinds():
                self._kinds_by_storage.setdefault(storage_resource(each), []).append(each)
        return self._kinds_by_storage.get(storage_resource(kind), [kind])

    def to_version(self, obj: JsonObject | None, kind: Kind, subresource: str) -> JsonObject | None:
        """A stored object in the version of `kind`; not to be changed."""
        if obj is None:
            return None
        name = request_kind(kind, subresource)
        if kind.from_storage is not None and name.kind == kind.kind:
            obj = kind.from_storage(deep_copy(obj))
        return {**obj, "kind": name.kind, "apiVersion": name.api_version}

    def to_storage(self, obj: JsonObject, kind: Kind, subresource: str) -> JsonObject:
        """Convert back an object of any form: validated, pruned and defaulted.

        Raises ApiError if it is not an object of the kind.
        """
        name = request_kind(kind, subresource)
        obj["kind"], obj["apiVersion"] = name.kind, name.api_version
        if name.kind != kind.kind:
            schema = builtin_schema(name.group, name.version, name.kind)
            schema_checker(schema).conform(obj, name.kind, name.version)
            return obj
        schema_checker(kind.schema).conform(obj, kind.kind, kind.version)
        kind.strategy.default(obj)
        if kind.to_storage is None:
            return obj
        stored = self._served_kinds.storage_kind(kind)
        converted = kind.to_storage(obj)
        converted["kind"], converted["apiVersion"] = stored.kind, stored.api_version
        return converted
