"""Objects of a write in the versions that those who judge it know.

A write is about one stored version. Who is asked may have named another one of the same kind
(`autoscaling/v1` for `v2`, a custom kind's `v1beta1` for its `v1`), and is shown that.
"""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.local.catalog import Catalog, storage_resource
from kilonova.local.kinds.base import Kind
from kilonova.local.patch import copied
from kilonova.local.schema.builtin import builtin_schema
from kilonova.local.schema.check import checker


@dataclass(frozen=True, slots=True)
class TypeName:
    """A group, a version and a kind."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def type_name(kind: Kind, subresource: str) -> TypeName:
    """What an object sent to a kind, or to its subresource, is: a Scale for `deployments/scale`."""
    part = kind.subresources.get(subresource)
    if part is None or part.kind == kind.kind:
        return TypeName(kind.group, kind.version, kind.kind)
    return TypeName(part.group, part.version, part.kind)


class Versions:
    """The kinds that share a storage, and their conversion."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._revision = -1
        self._sharing: dict[str, list[Kind]] = {}

    def equivalent(self, kind: Kind) -> list[Kind]:
        """All kinds that are stored where `kind` is, itself among them."""
        if self._revision != self._catalog.revision:
            self._revision = self._catalog.revision
            self._sharing = {}
            for each in self._catalog.kinds():
                self._sharing.setdefault(storage_resource(each), []).append(each)
        return self._sharing.get(storage_resource(kind), [kind])

    def shown(self, obj: JsonObject | None, kind: Kind, subresource: str) -> JsonObject | None:
        """A stored object in the version of `kind`; not to be changed."""
        if obj is None:
            return None
        name = type_name(kind, subresource)
        if kind.from_storage is not None and name.kind == kind.kind:
            obj = kind.from_storage(copied(obj))
        return {**obj, "kind": name.kind, "apiVersion": name.api_version}

    def stored(self, obj: JsonObject, kind: Kind, subresource: str) -> JsonObject:
        """The way back, for an object of any form: checked, pruned and defaulted on it.

        Raises ApiError where it is no object of the kind.
        """
        name = type_name(kind, subresource)
        obj["kind"], obj["apiVersion"] = name.kind, name.api_version
        if name.kind != kind.kind:
            schema = builtin_schema(name.group, name.version, name.kind)
            checker(schema).admit(obj, name.kind, name.version)
            return obj
        checker(kind.schema).admit(obj, kind.kind, kind.version)
        kind.behavior.default(obj)
        if kind.to_storage is None:
            return obj
        stored = self._catalog.storing(kind)
        converted = kind.to_storage(obj)
        converted["kind"], converted["apiVersion"] = stored.kind, stored.api_version
        return converted
