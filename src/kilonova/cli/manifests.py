"""Objects as people write them in files: documents of YAML or JSON, and Lists of objects."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from kilonova.api.json import JsonObject
from kilonova.cli.failure import CommandFailed
from kilonova.kube.yamlproblems import yaml_problem

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object, and where it was written."""

    kind: str
    body: JsonObject
    where: str
    usual_namespace: str = "default"
    """Where it goes if it does not say."""

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.body["metadata"].get("namespace") or self.usual_namespace


def read_manifests(files: list[Path]) -> list[Manifest]:
    """All objects of some files, `-` for standard input; `CommandFailed` says what is wrong."""
    return [each for file in files for each in _in_file(file)]


def _in_file(file: Path) -> Iterator[Manifest]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.expanduser().read_text()
        documents = list(yaml.load_all(text, _LOADER))
    except OSError as error:
        raise CommandFailed(f"{file} can not be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise CommandFailed(f"{file} is no YAML: {yaml_problem(error)}") from None
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{file} is no YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _objects(document, f"{file}, document {number}")


def _objects(document: object, where: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise CommandFailed(f"{where}: there is no object in it")
    body = cast(JsonObject, document)
    kind = body.get("kind")
    if not isinstance(kind, str) or not body.get("apiVersion"):
        raise CommandFailed(f"{where}: an object needs apiVersion and kind")
    if kind == "List":
        for index, item in enumerate(cast(list[object], body.get("items") or [])):
            yield from _objects(item, f"{where}, items[{index}]")
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not cast(JsonObject, metadata).get("name"):
        raise CommandFailed(f"{where}: {kind} needs metadata.name")
    yield Manifest(kind, body, where)
