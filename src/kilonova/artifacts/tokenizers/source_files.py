"""The files of a tokenizer where it is added from.

That is a folder or file in Hugging Face's layout, a prefix of a bucket, or an artifact of a
registry.
"""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from kilonova.artifacts.tokenizers.cache_info import (
    CACHE_INFO_FILE,
    TOKENIZER_FILE,
    Files,
    parse_cache_info,
)
from kilonova.artifacts.tokenizers.errors import (
    InvalidTokenizer,
    TokenizerNotFound,
    TokenizerUnavailable,
)
from kilonova.artifacts.tokenizers.places import (
    MAX_FILE_BYTES,
    read_file,
    translate_store_error,
)
from kilonova.objectstore import ObjectStoreError, S3Settings, S3Store
from kilonova.objectstore.locations import parse_location
from kilonova.objectstore.oci.location import OciLocation

FILES = (
    TOKENIZER_FILE,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    CACHE_INFO_FILE,
)
"""What is taken from a folder: a tokenizer may lie beside the weights of its model."""

_HUB_FOLDER = re.compile(r"models--(?P<org>[^-].*?)--(?P<model>.+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """What was found, with the name and the revision that the source has for it, if any."""

    source: str
    files: Files
    name: str = ""
    revision: str = ""


async def read_source(text: str) -> SourceFiles:
    """Read a source; `TokenizerError` if it has no tokenizer."""
    try:
        location = parse_location(text)
    except ObjectStoreError as error:
        raise TokenizerUnavailable(error.where, error.problem, error.fix) from error
    match location:
        case Path():
            found = await asyncio.to_thread(_read_path, location.absolute())
        case S3Settings():
            found = await _read_bucket(location)
        case OciLocation():
            found = await _pull(location)
    if TOKENIZER_FILE not in found.files:
        fix = (
            "write it with save_pretrained of a fast tokenizer (transformers.AutoTokenizer); "
            f"there are: {', '.join(found.files) or 'no files of a tokenizer'}"
        )
        raise InvalidTokenizer(found.source, f"there is no {TOKENIZER_FILE}", fix)
    return found


def _read_path(path: Path) -> SourceFiles:
    try:
        if path.is_dir():
            names = [each for each in FILES if (path / each).is_file()]
            files = {each: read_file(path / each) for each in names}
            folder = path
        else:
            files, folder = {TOKENIZER_FILE: read_file(path)}, path.parent
    except FileNotFoundError as error:
        problem = "there is no such file or directory"
        raise TokenizerNotFound(str(path), problem, "correct the path") from error
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise TokenizerUnavailable(str(path), problem, "check its permissions") from error
    name, revision = _read_hub_cache(folder)
    return _describe(str(path), files, name, revision)


async def _read_bucket(location: S3Settings) -> SourceFiles:
    files: dict[str, bytes] = {}
    async with S3Store(location) as store:
        try:
            async for each in store.list():
                if each.key in FILES:
                    files[each.key] = (await store.get(each.key, max_bytes=MAX_FILE_BYTES)).body
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
    return _describe(location.name, files)


async def _pull(location: OciLocation) -> SourceFiles:
    from kilonova.artifacts.tokenizers.registry import RegistryPlace  # aiohttp is slow to import

    place = RegistryPlace(location)
    try:
        digest, files = await place.pull(location.reference or "latest")
    finally:
        await place.close()
    taken = {name: files[name] for name in FILES if name in files}
    return _describe(place.locate(location.reference or "latest"), taken, revision=digest)


def _describe(source: str, files: Files, name: str = "", revision: str = "") -> SourceFiles:
    """A tokenizer of another store keeps the name and revision that it has there."""
    content = dict(files)
    former = content.pop(CACHE_INFO_FILE, None)
    if former is None:
        return SourceFiles(source, content, name, revision)
    info = parse_cache_info(former, source)
    return SourceFiles(source, content, info.name, info.revision)


def _read_hub_cache(folder: Path) -> tuple[str, str]:
    """Name and commit in Hugging Face's cache: `models--ORG--MODEL/snapshots/COMMIT`."""
    found = next(filter(None, (_HUB_FOLDER.fullmatch(each) for each in folder.parts)), None)
    commit = next((each for each in folder.parts if _COMMIT.fullmatch(each)), "")
    return (f"{found['org']}/{found['model']}", commit) if found else ("", "")
