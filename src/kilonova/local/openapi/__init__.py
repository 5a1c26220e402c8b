"""OpenAPI v3 as kubectl and other clients ask for it: an index, and a document per version.

`index` and `document` are pure functions of the served kinds. `OpenApi` keeps what they
make as bytes, for as long as the kinds of a group-version stay the same; a document is made,
and told from an earlier one, when it is asked for.
"""

import hashlib
from functools import cache

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.data import table
from kilonova.local.kinds.base import Kind
from kilonova.local.openapi.components import components
from kilonova.local.openapi.paths import operations, root_path

__all__ = ["OpenApi", "document", "index"]

ROOT = "/openapi/v3"


class OpenApi:
    """The documents as they go over the wire, by path, with their ETags."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[Kind]] = {}
        self._digests: dict[str, str] = {}
        self._bodies: dict[str, tuple[str, bytes]] = {}

    def update(self, kinds: list[Kind]) -> None:
        """These kinds are served from now on; documents that do not change are kept."""
        self._kinds = _by_path(kinds)
        self._digests = {}
        self._bodies = {path: kept for path, kept in self._bodies.items() if path in self._kinds}

    def find(self, path: str) -> tuple[bytes, str] | None:
        """Body and ETag of the document at a path such as `/openapi/v3/apis/apps/v1`."""
        key = path.removeprefix(ROOT).strip("/")
        if not path.startswith(ROOT) or (key and key not in self._kinds):
            return None
        digest = self._digest(key) if key else _combined(self._all_digests())
        kept = self._bodies.get(key)
        if kept is None or kept[0] != digest:
            kept = self._bodies[key] = (digest, msgspec.json.encode(self._make(key)))
        return kept[1], f'"{digest}"'

    def _make(self, key: str) -> JsonObject:
        if not key:
            return _index(self._all_digests())
        kinds = self._kinds[key]
        return document(kinds[0].group, kinds[0].version, kinds)

    def _all_digests(self) -> dict[str, str]:
        return {path: self._digest(path) for path in self._kinds}

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = _digest(self._kinds[path])
        return self._digests[path]


def index(kinds: list[Kind]) -> JsonObject:
    """Where the document of each group-version is, under an address that names its content."""
    return _index({path: _digest(group) for path, group in _by_path(kinds).items()})


def document(group: str, version: str, kinds: list[Kind]) -> JsonObject:
    """The OpenAPI document of a group-version; of `kinds`, those of others are left out."""
    own = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {path: each for kind in own for path, each in operations(kind).items()},
        "components": {"schemas": components(group, version, own)},
    }


def _index(digests: dict[str, str]) -> JsonObject:
    return {
        "paths": {
            path: {"serverRelativeURL": f"{ROOT}/{path}?hash={digest}"}
            for path, digest in digests.items()
        }
    }


def _by_path(kinds: list[Kind]) -> dict[str, list[Kind]]:
    groups: dict[str, list[Kind]] = {}
    for kind in kinds:
        groups.setdefault(root_path(kind).strip("/"), []).append(kind)
    return groups


def _digest(kinds: list[Kind]) -> str:
    """Of what the document is made from: cheaper than the document."""
    hasher = hashlib.sha256(_tables())
    for kind in kinds:
        names = (kind.group, kind.version, kind.kind, kind.plural, kind.namespaced, kind.verbs)
        more = [*(each.name for each in kind.subresources.values())]
        hasher.update(msgspec.json.encode((names, more)))
        if kind.custom:
            hasher.update(msgspec.json.encode(kind.schema.source, order="sorted"))
    return hasher.hexdigest().upper()


def _combined(digests: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest().upper()


@cache
def _tables() -> bytes:
    return hashlib.sha256(table("schemas.json.gz") + table("descriptions.json.gz")).digest()
