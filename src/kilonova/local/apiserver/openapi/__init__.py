"""OpenAPI v3 documents for kubectl and other clients: an index, and a document per group-version.

`openapi_index` and `openapi_document` are pure functions of the served kinds. `OpenApiDocuments` is
the entry point: it caches the encoded documents as long as the kinds of a group-version stay the
same; a document is built, and compared with an earlier one, on request.
"""

import hashlib
from functools import cache

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.openapi.components import components
from kilonova.local.apiserver.openapi.paths import operations, root_path
from kilonova.local.data import table

__all__ = ["OpenApiDocuments", "openapi_document", "openapi_index"]

ROOT = "/openapi/v3"


class OpenApiDocuments:
    """The encoded documents by path, with their ETags."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[Kind]] = {}
        self._digests: dict[str, str] = {}
        self._bodies: dict[str, tuple[str, bytes]] = {}

    def update(self, kinds: list[Kind]) -> None:
        """Set the served kinds; documents that do not change stay cached."""
        self._kinds = _group_by_path(kinds)
        self._digests = {}
        self._bodies = {path: body for path, body in self._bodies.items() if path in self._kinds}

    def find(self, path: str) -> tuple[bytes, str] | None:
        """Body and ETag of the document at a path such as `/openapi/v3/apis/apps/v1`."""
        key = path.removeprefix(ROOT).strip("/")
        if not path.startswith(ROOT) or (key and key not in self._kinds):
            return None
        digest = self._digest(key) if key else _combine_digests(self._all_digests())
        cached = self._bodies.get(key)
        if cached is None or cached[0] != digest:
            cached = self._bodies[key] = (digest, msgspec.json.encode(self._build_document(key)))
        return cached[1], f'"{digest}"'

    def _build_document(self, key: str) -> JsonObject:
        if not key:
            return _make_index(self._all_digests())
        kinds = self._kinds[key]
        return openapi_document(kinds[0].group, kinds[0].version, kinds)

    def _all_digests(self) -> dict[str, str]:
        return {path: self._digest(path) for path in self._kinds}

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = _digest(self._kinds[path])
        return self._digests[path]


def openapi_index(kinds: list[Kind]) -> JsonObject:
    """The URL of each group-version's document, with a hash of its content."""
    return _make_index({path: _digest(group) for path, group in _group_by_path(kinds).items()})


def openapi_document(group: str, version: str, kinds: list[Kind]) -> JsonObject:
    """The OpenAPI document of a group-version; kinds of other group-versions are ignored."""
    served = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {path: each for kind in served for path, each in operations(kind).items()},
        "components": {"schemas": components(group, version, served)},
    }


def _make_index(digests: dict[str, str]) -> JsonObject:
    return {
        "paths": {
            path: {"serverRelativeURL": f"{ROOT}/{path}?hash={digest}"}
            for path, digest in digests.items()
        }
    }


def _group_by_path(kinds: list[Kind]) -> dict[str, list[Kind]]:
    groups: dict[str, list[Kind]] = {}
    for kind in kinds:
        groups.setdefault(root_path(kind).strip("/"), []).append(kind)
    return groups


def _digest(kinds: list[Kind]) -> str:
    """A digest of the inputs of the document: cheaper than building the document."""
    hasher = hashlib.sha256(_tables_digest())
    for kind in kinds:
        names = (kind.group, kind.version, kind.kind, kind.plural, kind.namespaced, kind.verbs)
        subresources = [*(each.name for each in kind.subresources.values())]
        hasher.update(msgspec.json.encode((names, subresources)))
        if kind.is_custom:
            hasher.update(msgspec.json.encode(kind.schema.source, order="sorted"))
    return hasher.hexdigest().upper()


def _combine_digests(digests: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest().upper()


@cache
def _tables_digest() -> bytes:
    return hashlib.sha256(table("schemas.json.gz") + table("descriptions.json.gz")).digest()
