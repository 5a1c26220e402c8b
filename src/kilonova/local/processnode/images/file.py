"""Reads image tables: the one that is shipped, and a user's file before it.

Every error names the file, the field, the value found, and a valid value.
"""

import os
import re
from importlib import resources
from pathlib import Path
from typing import cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.processnode.images.own import list_own_images
from kilonova.local.processnode.images.table import ImageEntry, ImageTable

_DEFAULT = "default.yaml"
_MAX_SHOWN = 60
_EXAMPLE = "{image: ghcr.io/acme/server, entrypoint: [python3, -m, acme.server]}"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class ImageTableError(Exception):
    """An invalid image table; the message names file, field, value and fix."""


def load_image_table(file: Path | None = None) -> ImageTable:
    """The shipped table, with the entries of a file before it; raises `ImageTableError`."""
    shipped = resources.files("kilonova.local.processnode.images").joinpath(_DEFAULT).read_text()
    own = () if file is None else _parse(_read(file), str(file))
    return ImageTable((*own, *_parse(shipped, _DEFAULT), *list_own_images()))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise ImageTableError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeError:
        raise ImageTableError(f"{file} is not text: write YAML, such as {_EXAMPLE}") from None


def _parse(text: str, file: str) -> tuple[ImageEntry, ...]:
    import yaml  # slow to import

    try:
        document = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        raise ImageTableError(f"{file} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(document, dict) or set(cast(JsonObject, document)) != {"images"}:
        raise ImageTableError(f"{file}: write one field, images, with a list: [{_EXAMPLE}]")
    entries = cast(JsonObject, document)["images"]
    if not isinstance(entries, list):
        raise ImageTableError(f"{file}: images: is {_show(entries)}: write a list: [{_EXAMPLE}]")
    return tuple(
        _parse_entry(each, f"{file}: images[{number}]")
        for number, each in enumerate(cast("list[object]", entries))
    )


def _parse_entry(value: object, where: str) -> ImageEntry:
    if not isinstance(value, dict):
        raise ImageTableError(f"{where}: is {_show(value)}: write fields: {_EXAMPLE}")
    fields = cast(JsonObject, value)
    known = {each.encode_name: each for each in msgspec.structs.fields(ImageEntry)}
    for name, given in fields.items():
        if name not in known:
            raise ImageTableError(f"{where}.{name}: no such field: use {', '.join(known)}")
        try:
            msgspec.convert(given, known[name].type)
        except msgspec.ValidationError:
            fix = _FIXES[name]
            raise ImageTableError(f"{where}.{name}: is {_show(given)}: write {fix}") from None
    if not str(fields.get("image", "")).strip():
        raise ImageTableError(f"{where}.image: is missing: write {_FIXES['image']}")
    entry = msgspec.convert(fields, ImageEntry)
    _check_entry(entry, where)
    folders = tuple(os.path.expanduser(each) for each in entry.path)
    return msgspec.structs.replace(entry, path=folders)


def _check_entry(entry: ImageEntry, where: str) -> None:
    for name in entry.env:
        if not _VARIABLE.fullmatch(name):
            raise ImageTableError(f"{where}.env: {_show(name)} is no name of a variable: use A_Z")
        if name == "PATH":
            raise ImageTableError(f"{where}.env: PATH is set by the node: list folders in `path`")
    for number, folder in enumerate(entry.path):
        if not os.path.isabs(os.path.expanduser(folder)) or ":" in folder:
            fix = f"write an absolute folder: {os.path.abspath('bin')}"
            raise ImageTableError(f"{where}.path[{number}]: is {_show(folder)}: {fix}")
    if entry.working_dir and not os.path.isabs(entry.working_dir):
        given = _show(entry.working_dir)
        raise ImageTableError(f"{where}.workingDir: is {given}: write an absolute folder: /app")
    for name in ("entrypoint", "cmd"):
        words: tuple[str, ...] = getattr(entry, name)
        if words and not words[0]:
            raise ImageTableError(f"{where}.{name}[0]: is '': write {_FIXES[name]}")


_FIXES = {
    "image": "the image without or with a tag: ghcr.io/acme/server, python:3.*",
    "entrypoint": "a list of words: [python3, -m, acme.server]",
    "cmd": "a list of words: [--port, '8000']",
    "env": "texts by name: {ACME_HOME: /srv/acme, PORT: '8000'}",
    "workingDir": "an absolute folder: /srv/acme",
    "path": "a list of absolute folders: [/opt/acme/bin]",
    "install": "how the programs are installed: pip install acme-server",
    "programs": "programs by the name that the image has for them: {python: python3}",
}


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
