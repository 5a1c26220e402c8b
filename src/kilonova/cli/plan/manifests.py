"""Reads manifests: YAML or JSON documents, and Lists of objects."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from kilonova.api.group_kinds import GroupKind
from kilonova.api.json import JsonObject
from kilonova.component.failure import CommandFailed
from kilonova.yaml_files import describe_yaml_error

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object, and its location in a file."""

    group_kind: GroupKind
    body: JsonObject
    location: str
    default_namespace: str = "default"
    """Used if the object has none."""

    @property
    def kind(self) -> str:
        """The kind, with its group unless that is well known."""
        return str(self.group_kind)

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.body["metadata"].get("namespace") or self.default_namespace


def read_manifests(files: list[Path]) -> list[Manifest]:
    """All objects of some files, `-` for standard input; `CommandFailed` if one is invalid."""
    return [each for file in files for each in _read_file(file)]


def _read_file(file: Path) -> Iterator[Manifest]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.expanduser().read_text()
        documents = list(yaml.load_all(text, _LOADER))
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise CommandFailed(f"{file} is not YAML: {describe_yaml_error(error)}") from None
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{file} is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _parse_document(document, f"{file}, document {number}")


def _parse_document(document: object, location: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise CommandFailed(f"{location}: is not an object")
    body = cast(JsonObject, document)
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str) or not api_version:
        raise CommandFailed(f"{location}: an object needs apiVersion and kind")
    if kind == "List":
        for index, item in enumerate(cast(list[object], body.get("items") or [])):
            yield from _parse_document(item, f"{location}, items[{index}]")
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not cast(JsonObject, metadata).get("name"):
        raise CommandFailed(f"{location}: {kind} needs metadata.name")
    yield Manifest(GroupKind.from_api_version(api_version, kind), body, location)
