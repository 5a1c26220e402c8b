"""Discovery: groups, versions and resources, in plain and aggregated form.

Pure functions of the served kinds. The order is that of kube-apiserver: built-in groups in the
order of their table, then the groups of custom kinds by name, newer and more stable versions first.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import Kind, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Content type of a document that lists all groups with all their resources."""

Groups = dict[str, dict[str, list[Kind]]]
"""Kinds by group and version, in order."""


def discovery_document(
    segments: Sequence[str], kinds: Iterable[Kind], *, aggregated: bool = False
) -> JsonObject | None:
    """The discovery document at the path of these segments, or None if there is none.

    Only `/api` and `/apis` have an aggregated form.
    """
    groups = group_kinds(kinds)
    match segments:
        case ["api"]:
            return (
                aggregated_discovery(groups, core=True)
                if aggregated
                else api_versions_document(groups)
            )
        case ["apis"]:
            return (
                aggregated_discovery(groups, core=False) if aggregated else api_group_list(groups)
            )
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(group, groups[group])}
        case ["api", version] if version in groups.get("", {}):
            return api_resource_list(version, groups[""][version], _storage_version_hashes(groups))
        case ["apis", group, version] if group and version in groups.get(group, {}):
            return api_resource_list(
                f"{group}/{version}", groups[group][version], _storage_version_hashes(groups)
            )
        case _:
            return None


def compute_etag(body: bytes) -> str:
    """The ETag of a document."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def group_kinds(kinds: Iterable[Kind]) -> Groups:
    """Group the kinds by group and version."""
    builtin: Groups = {}
    custom: Groups = {}
    for kind in kinds:
        groups = custom if kind.is_custom and kind.group not in builtin else builtin
        groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    for group in sorted(custom):
        versions = sorted(custom[group], key=version_priority)
        builtin[group] = {
            version: sorted(custom[group][version], key=lambda kind: kind.plural)
            for version in versions
        }
    return builtin


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sorts versions best first: v2, v1, v2beta1, v1alpha2, then all other names."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    major, stability, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stability]
    return (rank, -int(major), -int(minor or 0), version)


def api_versions_document(groups: Groups, server_address: str = "") -> JsonObject:
    """`/api`: the versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": list(groups.get("", {})),
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def api_group_list(groups: Groups) -> JsonObject:
    """`/apis`: every group except the core group, with its versions."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_api_group(name, versions) for name, versions in groups.items() if name],
    }


def api_resource_list(
    group_version: str, kinds: Sequence[Kind], hashes: Mapping[tuple[str, str], str]
) -> JsonObject:
    """`/apis/<group>/<version>`: its resources, each followed by its subresources.

    `hashes` has, for each stored resource, the hash of the version it is stored in.
    """
    resources: list[JsonObject] = []
    for kind in kinds:
        resource = _api_resource(kind)
        if "watch" in kind.verbs and (found := hashes.get(_storage_key(kind))):
            resource["storageVersionHash"] = found
        resources.append(resource)
        resources += [_api_subresource(kind, each) for each in kind.subresources.values()]
    # Kubernetes omits the apiVersion in the core group's list.
    version = {"apiVersion": "v1"} if "/" in group_version else {}
    return {
        "kind": "APIResourceList",
        **version,
        "groupVersion": group_version,
        "resources": resources,
    }


def aggregated_discovery(groups: Groups, *, core: bool) -> JsonObject:
    """The aggregated document of the core group, or of all other groups."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(kind) for kind in kinds],
                        "freshness": "Current",
                    }
                    for version, kinds in versions.items()
                ],
            }
            for name, versions in groups.items()
            if bool(name) is not core
        ],
    }


def _storage_version_hashes(groups: Groups) -> dict[tuple[str, str], str]:
    """Let clients detect that two resources share their storage: they have equal hashes."""
    hashes: dict[tuple[str, str], str] = {}
    for kind in (kind for group in groups.values() for kinds in group.values() for kind in kinds):
        if kind.from_storage is None:
            name = f"{kind.group}/{kind.version}/{kind.kind}"
            digest = hashlib.sha256(name.encode()).digest()
            hashes.setdefault(_storage_key(kind), b64encode(digest[:8]).decode())
    return hashes


def _storage_key(kind: Kind) -> tuple[str, str]:
    return (kind.group if kind.storage_group is None else kind.storage_group, kind.plural)


def _api_group(name: str, versions: dict[str, list[Kind]]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _api_resource(kind: Kind) -> JsonObject:
    return {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_resource_names(kind),
    }


def _api_subresource(kind: Kind, subresource: Subresource) -> JsonObject:
    described: JsonObject = {
        "name": f"{kind.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.kind,
        "verbs": list(subresource.verbs),
    }
    if not _is_same_version(kind, subresource):
        described["group"], described["version"] = subresource.group, subresource.version
    return described


def _aggregated_resource(kind: Kind) -> JsonObject:
    described: JsonObject = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_resource_names(kind),
    }
    if kind.subresources:
        described["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": _response_kind(kind, each.group, each.version, each.kind),
                "verbs": list(each.verbs),
            }
            for each in kind.subresources.values()
        ]
    return described


def _response_kind(kind: Kind, group: str, version: str, name: str) -> JsonObject:
    """Built-in resources omit a version that is their own; custom ones repeat it."""
    if not kind.is_custom and (group, version) == (kind.group, kind.version):
        group = version = ""
    return {"group": group, "version": version, "kind": name}


def _resource_names(kind: Kind) -> JsonObject:
    names: JsonObject = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _is_same_version(kind: Kind, subresource: Subresource) -> bool:
    return (subresource.group, subresource.version) == (kind.group, kind.version)
