"""The objects of files for `kilonova serve -f`: manifests, or values of a SuperSONIC release."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.component.failure import CommandFailed
from kilonova.kube import Resource
from kilonova.serving import resources
from kilonova.yaml_files import describe_yaml_error

STANDARD_INPUT = "-"
KIND = "InferenceService"
DEFAULT_RELEASE = "supersonic"
"""The name of a release whose values file says none, as in SuperSONIC's own examples."""
_SUFFIXES = (".yaml", ".yml", ".json")
_RESOURCES: dict[tuple[str, str], Resource[Any]] = {
    (each.api_version, each.kind): each
    for each in (
        resources.INFERENCE_SERVICES,
        resources.SERVICES,
        resources.SECRETS,
        resources.CONFIG_MAPS,
        resources.CLAIMS,
        resources.INGRESSES,
    )
}


@dataclass(frozen=True, slots=True)
class AppliedObject:
    """An object to apply."""

    resource: Resource[Any]
    body: JsonObject
    owner: str = ""
    """The name of the service that it is deleted with; empty for none."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.body["metadata"]["name"]

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.body["metadata"]["namespace"]

    @property
    def reference(self) -> str:
        """`inferenceservice/web`."""
        return f"{self.resource.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServeManifests:
    """What to apply, in this order, and what one should know of it."""

    objects: tuple[AppliedObject, ...]
    warnings: tuple[str, ...] = ()

    @property
    def services(self) -> tuple[AppliedObject, ...]:
        """The services among the objects."""
        return tuple(each for each in self.objects if each.resource.kind == KIND)


def read_manifests(
    paths: Sequence[str], namespace: str, release: str | None = None
) -> ServeManifests:
    """Read files, the files of folders, or `-` for the standard input.

    Documents without `kind` are the values of a SuperSONIC release named `release`: later ones are
    merged over earlier ones, as Helm does. With manifests, `release` is the name of their one
    service. `CommandFailed` names file and fix.
    """
    objects: list[AppliedObject] = []
    warnings: list[str] = []
    values: JsonObject = {}
    sources: list[str] = []
    for where, document in _iterate_documents(paths):
        if "kind" in document or "apiVersion" in document:
            objects += _read_manifest(document, where, namespace)
        else:
            values = _merge_values(values, document)
            sources.append(where)
    if sources:
        where = ", ".join(dict.fromkeys(sources))
        converted = _convert_values(values, where, release or DEFAULT_RELEASE, namespace)
        objects += converted.objects
        warnings += converted.warnings
        release = None
    found = ServeManifests(tuple(_sort(objects)), tuple(warnings))
    if not found.services:
        raise CommandFailed(f"{', '.join(paths)}: there is no {KIND} and no values file")
    return _rename(found, release) if release else found


def _iterate_documents(paths: Sequence[str]) -> Iterator[tuple[str, JsonObject]]:
    for path in paths:
        for where, text in _iterate_texts(path):
            for number, document in enumerate(_parse(text, where), 1):
                if document is None:
                    continue
                if not isinstance(document, dict):
                    raise CommandFailed(f"{where}, document {number}: write KEY: VALUE lines")
                yield where, cast(JsonObject, document)


def _iterate_texts(path: str) -> Iterator[tuple[str, str]]:
    if path == STANDARD_INPUT:
        yield "standard input", sys.stdin.read()
        return
    given = Path(path).expanduser()
    files = [given]
    if given.is_dir():
        files = sorted(each for each in given.iterdir() if each.suffix in _SUFFIXES)
        if not files:
            raise CommandFailed(f"{path} has no file that ends with {', '.join(_SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_text()
        except OSError as error:
            raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise CommandFailed(f"{file} is not text") from None


def _parse(text: str, where: str) -> list[object]:
    import yaml  # slow to import

    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise CommandFailed(f"{where} is not YAML: {describe_yaml_error(error)}") from None


def _read_manifest(document: JsonObject, where: str, namespace: str) -> Iterator[AppliedObject]:
    if document.get("kind") == "List":
        for item in document.get("items") or ():
            yield from _read_manifest(item, where, namespace)
        return
    key = str(document.get("apiVersion")), str(document.get("kind"))
    resource = _RESOURCES.get(key)
    metadata = document.get("metadata")
    if resource is None:
        known = ", ".join(kind for _, kind in _RESOURCES)
        raise CommandFailed(
            f"{where}: {key[1]} ({key[0]}) is not applied by `kilonova serve`, which knows "
            f"{known}: use `kubectl apply`"
        )
    if not isinstance(metadata, dict) or not cast(JsonObject, metadata).get("name"):
        raise CommandFailed(f"{where}: {key[1]}: metadata.name is missing: it is required")
    yield _build_object(resource, document, namespace)


def _merge_values(first: JsonObject, second: JsonObject) -> JsonObject:
    """Objects are merged, everything else is replaced."""
    merged = dict(first)
    for key, value in second.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge_values(cast(JsonObject, old), cast(JsonObject, value))
        merged[key] = value
    return merged


def _convert_values(values: JsonObject, where: str, release: str, namespace: str) -> ServeManifests:
    from kilonova.serving.supersonic import ValuesError, convert_values

    try:
        conversion = convert_values(values, release, namespace)
    except ValuesError as error:
        problems = "".join(f"\n  {each}" for each in error.problems)
        raise CommandFailed(f"{where} cannot be served as it is:{problems}") from None
    service = _convert_object(conversion.service, namespace)
    objects = (
        replace(_convert_object(each, namespace), owner=service.name) for each in conversion.objects
    )
    return ServeManifests((service, *objects), conversion.warnings)


def _convert_object(body: JsonObject, namespace: str) -> AppliedObject:
    return _build_object(_RESOURCES[body["apiVersion"], body["kind"]], body, namespace)


def _build_object(resource: Resource[Any], body: JsonObject, namespace: str) -> AppliedObject:
    metadata = {"namespace": namespace, **body["metadata"]}
    return AppliedObject(resource, {**body, "metadata": metadata})


def _sort(objects: list[AppliedObject]) -> list[AppliedObject]:
    """Services after what they refer to, and before what they own."""
    return sorted(objects, key=lambda each: (bool(each.owner), each.resource.kind == KIND))


def _rename(found: ServeManifests, name: str) -> ServeManifests:
    if len(found.services) > 1:
        listed = ", ".join(each.name for each in found.services)
        raise CommandFailed(f"--name is for one service, and there are several: {listed}")
    objects = (
        AppliedObject(
            each.resource, {**each.body, "metadata": {**each.body["metadata"], "name": name}}
        )
        if each.resource.kind == KIND
        else each
        for each in found.objects
    )
    return ServeManifests(tuple(objects), found.warnings)
