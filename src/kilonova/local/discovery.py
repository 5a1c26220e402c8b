"""What the server says it serves: groups, versions and resources, in both forms.

Pure functions of the served kinds. The order is that of kube-apiserver: built-in groups as
their table lists them, then the groups of custom kinds by name, newer and stabler versions
first.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.local.kinds.base import Kind, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Content type of a document that lists all groups with all their resources."""

Groups = dict[str, dict[str, list[Kind]]]
"""Kinds by group and version, in order."""


def document(path: str, kinds: Iterable[Kind], *, aggregated: bool = False) -> JsonObject | None:
    """The discovery document at a path, or None where there is none.

    Only `/api` and `/apis` have an aggregated form.
    """
    groups = by_group(kinds)
    match path.strip("/").split("/"):
        case ["api"]:
            return aggregated_list(groups, core=True) if aggregated else api_versions(groups)
        case ["apis"]:
            return aggregated_list(groups, core=False) if aggregated else group_list(groups)
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", version] if version in groups.get("", {}):
            return resource_list(version, groups[""][version], _hashes(groups))
        case ["apis", group, version] if group and version in groups.get(group, {}):
            return resource_list(f"{group}/{version}", groups[group][version], _hashes(groups))
        case _:
            return None


def etag(body: bytes) -> str:
    """What a client compares to see whether a document has changed."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def by_group(kinds: Iterable[Kind]) -> Groups:
    """Sort the kinds into groups and versions."""
    builtin: Groups = {}
    custom: Groups = {}
    for kind in kinds:
        groups = custom if kind.custom and kind.group not in builtin else builtin
        groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    for group in sorted(custom):
        versions = sorted(custom[group], key=version_order)
        builtin[group] = {
            version: sorted(custom[group][version], key=lambda kind: kind.plural)
            for version in versions
        }
    return builtin


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions best first: v2, v1, v2beta1, v1alpha2, then all other names."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (rank, -int(major), -int(minor or 0), version)


def api_versions(groups: Groups, server_address: str = "") -> JsonObject:
    """`/api`: the versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": list(groups.get("", {})),
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def group_list(groups: Groups) -> JsonObject:
    """`/apis`: every group but the core one, with its versions."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in groups.items() if name],
    }


def resource_list(
    group_version: str, kinds: Sequence[Kind], hashes: Mapping[tuple[str, str], str]
) -> JsonObject:
    """`/apis/<group>/<version>`: its resources, each followed by its subresources.

    `hashes` has, for each stored resource, the hash of the version it is stored in.
    """
    resources: list[JsonObject] = []
    for kind in kinds:
        resource = _resource(kind)
        if "watch" in kind.verbs and (found := hashes.get(_storage(kind))):
            resource["storageVersionHash"] = found
        resources.append(resource)
        resources += [_subresource(kind, each) for each in kind.subresources.values()]
    # Kubernetes leaves the apiVersion out of the core group's list.
    version = {"apiVersion": "v1"} if "/" in group_version else {}
    return {
        "kind": "APIResourceList",
        **version,
        "groupVersion": group_version,
        "resources": resources,
    }


def aggregated_list(groups: Groups, *, core: bool) -> JsonObject:
    """Everything about the core group, or about all others, in one document."""
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
                        "resources": [_aggregated(kind) for kind in kinds],
                        "freshness": "Current",
                    }
                    for version, kinds in versions.items()
                ],
            }
            for name, versions in groups.items()
            if bool(name) is not core
        ],
    }


def _hashes(groups: Groups) -> dict[tuple[str, str], str]:
    """Tells clients whether two resources are one storage: equal hashes, equal storage."""
    hashes: dict[tuple[str, str], str] = {}
    for kind in (kind for group in groups.values() for kinds in group.values() for kind in kinds):
        if kind.from_storage is None:
            name = f"{kind.group}/{kind.version}/{kind.kind}"
            digest = hashlib.sha256(name.encode()).digest()
            hashes.setdefault(_storage(kind), b64encode(digest[:8]).decode())
    return hashes


def _storage(kind: Kind) -> tuple[str, str]:
    return (kind.group if kind.storage_group is None else kind.storage_group, kind.plural)


def _group(name: str, versions: dict[str, list[Kind]]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(kind: Kind) -> JsonObject:
    return {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_names(kind),
    }


def _subresource(kind: Kind, subresource: Subresource) -> JsonObject:
    described: JsonObject = {
        "name": f"{kind.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.kind,
        "verbs": list(subresource.verbs),
    }
    if not _same_version(kind, subresource):
        described["group"], described["version"] = subresource.group, subresource.version
    return described


def _aggregated(kind: Kind) -> JsonObject:
    described: JsonObject = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind.group, kind.version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_names(kind),
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
    """Built-in resources leave out a version that is their own; custom ones repeat it."""
    if not kind.custom and (group, version) == (kind.group, kind.version):
        group = version = ""
    return {"group": group, "version": version, "kind": name}


def _names(kind: Kind) -> JsonObject:
    names: JsonObject = {}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _same_version(kind: Kind, subresource: Subresource) -> bool:
    return (subresource.group, subresource.version) == (kind.group, kind.version)
