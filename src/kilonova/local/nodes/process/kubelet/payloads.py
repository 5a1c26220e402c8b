"""The files of a volume that is made from objects: ConfigMaps, Secrets, the pod itself. Pure."""

from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from posixpath import normpath

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import objects, part
from kilonova.local.nodes.process.kubelet.environment import Sources
from kilonova.local.nodes.process.kubelet.fields import (
    Surroundings,
    UnknownField,
    metadata_value,
    resource_value,
)
from kilonova.local.nodes.process.kubelet.pods import Pod, ResourceFieldRef, volume_source

DEFAULT_MODE = 0o644
MADE_FROM_OBJECTS = ("configMap", "secret", "downwardAPI", "projected")


class VolumeError(Exception):
    """A volume cannot be had, for now; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a volume."""

    data: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Material:
    """What files are made from. `token` answers the n-th source of a projected volume."""

    sources: Sources
    around: Surroundings
    token: Callable[[str, int], str]


def files_of(pod: Pod, volume: JsonObject, material: Material) -> dict[str, File]:
    """All files of a volume by their path in it; `VolumeError` names the first that is missing."""
    kind, source = volume_source(volume)
    mode: int = source.get("defaultMode", DEFAULT_MODE)
    if kind != "projected":
        return _projection(pod, kind, source, mode, material)
    files: dict[str, File] = {}
    for index, entry in enumerate(objects(source, "sources")):
        for each, inner in entry.items():
            if each == "serviceAccountToken":
                token = material.token(volume["name"], index)
                files[inner["path"]] = File(token.encode(), mode)
            else:
                files |= _projection(pod, each, inner, mode, material)
    return files


def token_requests(volume: JsonObject) -> list[tuple[int, JsonObject]]:
    """The tokens that a projected volume wants: (place among its sources, what it says)."""
    kind, source = volume_source(volume)
    if kind != "projected":
        return []
    return [
        (index, entry["serviceAccountToken"])
        for index, entry in enumerate(objects(source, "sources"))
        if "serviceAccountToken" in entry
    ]


def references(pod: Pod) -> set[tuple[str, str]]:
    """All ConfigMaps and Secrets that a pod speaks of: (`configMap` or `secret`, name)."""
    found: set[tuple[str, str]] = set()
    for container in pod.all_containers:
        for source in container.env_from:
            if source.config_map_ref is not None:
                found.add(("configMap", source.config_map_ref.name))
            if source.secret_ref is not None:
                found.add(("secret", source.secret_ref.name))
        for variable in container.env:
            value = variable.value_from
            if value is not None and value.config_map_key_ref is not None:
                found.add(("configMap", value.config_map_key_ref.name))
            if value is not None and value.secret_key_ref is not None:
                found.add(("secret", value.secret_key_ref.name))
    for volume in pod.spec.volumes:
        found.update(_volume_references(volume))
    return found


def _volume_references(volume: JsonObject) -> Iterable[tuple[str, str]]:
    kind, source = volume_source(volume)
    if kind == "secret":
        yield kind, source["secretName"]
    elif kind == "configMap":
        yield kind, source["name"]
    elif kind == "projected":
        for entry in objects(source, "sources"):
            for each, inner in entry.items():
                if each in ("configMap", "secret"):
                    yield each, inner["name"]


def _projection(
    pod: Pod, kind: str, source: JsonObject, mode: int, material: Material
) -> dict[str, File]:
    match kind:
        case "configMap":
            found = material.sources.config_map(source.get("name", ""))
            return _config_map_files(found, source, mode)
        case "secret":
            name = source.get("secretName") or source.get("name", "")
            return _secret_files(material.sources.secret(name), name, source, mode)
        case "downwardAPI":
            return _downward_files(pod, source, mode, material.around)
        case _:
            raise VolumeError(f"{kind} is not served by this node")


def _config_map_files(found: JsonObject | None, source: JsonObject, mode: int) -> dict[str, File]:
    optional = bool(source.get("optional"))
    if found is None and not optional:
        raise VolumeError(f'configmap "{source.get("name", "")}" not found')
    held = found or {}
    contents = {key: text.encode() for key, text in part(held, "data").items()}
    contents |= {key: b64decode(text) for key, text in part(held, "binaryData").items()}
    missing = "configmap references non-existent config key: "
    return _selected(contents, source, mode, missing, optional=optional)


def _secret_files(
    found: JsonObject | None, name: str, source: JsonObject, mode: int
) -> dict[str, File]:
    optional = bool(source.get("optional"))
    if found is None and not optional:
        raise VolumeError(f'secret "{name}" not found')
    contents = {key: b64decode(text) for key, text in part(found or {}, "data").items()}
    missing = "references non-existent secret key: "
    return _selected(contents, source, mode, missing, optional=optional)


def _selected(
    contents: dict[str, bytes], source: JsonObject, mode: int, missing: str, *, optional: bool
) -> dict[str, File]:
    items = objects(source, "items")
    if not items:
        return {key: File(data, mode) for key, data in contents.items()}
    files: dict[str, File] = {}
    for item in items:
        if item["key"] in contents:
            files[item["path"]] = File(contents[item["key"]], item.get("mode", mode))
        elif not optional:
            raise VolumeError(missing + item["key"])
    return files


def _downward_files(
    pod: Pod, source: JsonObject, mode: int, around: Surroundings
) -> dict[str, File]:
    files: dict[str, File] = {}
    for item in objects(source, "items"):
        try:
            if "fieldRef" in item:
                text = metadata_value(pod, item["fieldRef"]["fieldPath"])
            else:
                ref = msgspec.convert(item["resourceFieldRef"], ResourceFieldRef)
                text = resource_value(pod, None, ref, around)
        except UnknownField as error:
            raise VolumeError(str(error)) from error
        files[normpath(item["path"])] = File(text.encode(), item.get("mode", mode))
    return files
