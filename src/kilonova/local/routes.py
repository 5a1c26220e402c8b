"""From a path to what is asked: which kind, which object, which part of it."""

from urllib.parse import unquote

import msgspec

from kilonova.local.catalog import Catalog
from kilonova.local.errors import PageNotFound, no_such_path, not_found
from kilonova.local.kinds.base import Kind

_OF_A_NAMESPACE = ("status", "finalize")


class Target(msgspec.Struct, frozen=True):
    """A resource, an object or a subresource. Empty strings where the path names none."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


def resource_target(path: str, catalog: Catalog) -> Target:
    """What a path under /api or /apis is about; 404 where nothing is served there."""
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_A_NAMESPACE:
        namespace, rest = rest[1], rest[2:]
    kind = catalog.find(group, version, rest[0])
    # Behind a proxy there are paths of any depth.
    is_too_deep = len(rest) > 3 and rest[2] != "proxy"
    if kind is None or is_too_deep or (namespace and not kind.namespaced):
        raise no_such_path() if catalog.is_builtin_version(group, version) else PageNotFound
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in kind.subresources:
        raise not_found(kind.group, kind.plural, name) if kind.custom else no_such_path()
    if name and kind.namespaced and not namespace:
        raise no_such_path()
    return Target(kind, namespace, name, subresource)
