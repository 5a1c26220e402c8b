"""The files of volumes made from objects: ConfigMaps, Secrets, downward API, tokens. Pure."""

from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from posixpath import normpath

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.processnode.kubelet.environment.downward_api import (
    FieldContext,
    UnsupportedField,
    resolve_metadata_field,
    resolve_resource,
)
from kilonova.local.processnode.kubelet.environment.variables import ObjectSources
from kilonova.local.processnode.kubelet.objects import Pod, ResourceFieldSelector, volume_source

DEFAULT_MODE = 0o644
PROJECTED_KINDS = ("configMap", "secret", "downwardAPI", "projected")


class VolumeError(Exception):
    """A volume is not available now; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """A file of a volume."""

    data: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class VolumeInputs:
    """The inputs of volume files. `token` returns the token of the n-th source of a projected
    volume.
    """

    sources: ObjectSources
    field_context: FieldContext
    token: Callable[[str, int], str]


def build_volume_files(pod: Pod, volume: JsonObject, inputs: VolumeInputs) -> dict[str, VolumeFile]:
    """All files of a volume by path; `VolumeError` names the first missing object or key."""
    kind, source = volume_source(volume)
    mode: int = source.get("defaultMode", DEFAULT_MODE)
    if kind != "projected":
        return _build_projection(pod, kind, source, mode, inputs)
    files: dict[str, VolumeFile] = {}
    for index, entry in enumerate(nested_objects(source, "sources")):
        for each, inner in entry.items():
            if each == "serviceAccountToken":
                token = inputs.token(volume["name"], index)
                files[inner["path"]] = VolumeFile(token.encode(), mode)
            else:
                files |= _build_projection(pod, each, inner, mode, inputs)
    return files


def find_token_requests(volume: JsonObject) -> list[tuple[int, JsonObject]]:
    """The token sources of a projected volume: (index among its sources, source)."""
    kind, source = volume_source(volume)
    if kind != "projected":
        return []
    return [
        (index, entry["serviceAccountToken"])
        for index, entry in enumerate(nested_objects(source, "sources"))
        if "serviceAccountToken" in entry
    ]


def find_references(pod: Pod) -> set[tuple[str, str]]:
    """All ConfigMaps and Secrets that a pod refers to: (`configMap` or `secret`, name)."""
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
        for entry in nested_objects(source, "sources"):
            for each, inner in entry.items():
                if each in ("configMap", "secret"):
                    yield each, inner["name"]


def _build_projection(
    pod: Pod, kind: str, source: JsonObject, mode: int, inputs: VolumeInputs
) -> dict[str, VolumeFile]:
    match kind:
        case "configMap":
            found = inputs.sources.config_map(source.get("name", ""))
            return _build_config_map_files(found, source, mode)
        case "secret":
            name = source.get("secretName") or source.get("name", "")
            return _build_secret_files(inputs.sources.secret(name), name, source, mode)
        case "downwardAPI":
            return _build_downward_files(pod, source, mode, inputs.field_context)
        case _:
            raise VolumeError(f"{kind} is not supported on this node")


def _build_config_map_files(
    found: JsonObject | None, source: JsonObject, mode: int
) -> dict[str, VolumeFile]:
    optional = bool(source.get("optional"))
    if found is None and not optional:
        raise VolumeError(f'configmap "{source.get("name", "")}" not found')
    data = found or {}
    contents = {key: text.encode() for key, text in nested_object(data, "data").items()}
    contents |= {key: b64decode(text) for key, text in nested_object(data, "binaryData").items()}
    missing = "configmap references non-existent config key: "
    return _select_items(contents, source, mode, missing, optional=optional)


def _build_secret_files(
    found: JsonObject | None, name: str, source: JsonObject, mode: int
) -> dict[str, VolumeFile]:
    optional = bool(source.get("optional"))
    if found is None and not optional:
        raise VolumeError(f'secret "{name}" not found')
    contents = {key: b64decode(text) for key, text in nested_object(found or {}, "data").items()}
    missing = "references non-existent secret key: "
    return _select_items(contents, source, mode, missing, optional=optional)


def _select_items(
    contents: dict[str, bytes], source: JsonObject, mode: int, missing: str, *, optional: bool
) -> dict[str, VolumeFile]:
    items = nested_objects(source, "items")
    if not items:
        return {key: VolumeFile(data, mode) for key, data in contents.items()}
    files: dict[str, VolumeFile] = {}
    for item in items:
        if item["key"] in contents:
            files[item["path"]] = VolumeFile(contents[item["key"]], item.get("mode", mode))
        elif not optional:
            raise VolumeError(missing + item["key"])
    return files


def _build_downward_files(
    pod: Pod, source: JsonObject, mode: int, field_context: FieldContext
) -> dict[str, VolumeFile]:
    files: dict[str, VolumeFile] = {}
    for item in nested_objects(source, "items"):
        try:
            if "fieldRef" in item:
                text = resolve_metadata_field(pod, item["fieldRef"]["fieldPath"])
            else:
                ref = msgspec.convert(item["resourceFieldRef"], ResourceFieldSelector)
                text = resolve_resource(pod, None, ref, field_context)
        except UnsupportedField as error:
            raise VolumeError(str(error)) from error
        files[normpath(item["path"])] = VolumeFile(text.encode(), item.get("mode", mode))
    return files
