"""Publishes a directory as a repository: files and manifest, or an artifact of a registry."""

import asyncio
import hashlib
import os
import secrets
import shutil
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from kilonova.objectstore import NotFound, ObjectStore, ObjectStoreError, S3Settings, S3Store
from kilonova.objectstore.locations import parse_location
from kilonova.objectstore.oci.location import OciLocation, is_digest
from kilonova.serving.repositories.errors import RepositoryError, translate_store_error
from kilonova.serving.repositories.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    check_path,
    compute_digest,
    encode_manifest,
    parse_manifest,
)
from kilonova.serving.repositories.sources import PIECE_BYTES, walk_folder

_CONCURRENCY = 4


async def write_manifest(folder: Path) -> str:
    """Write the manifest of a directory into it; its digest, `sha256:…`."""
    digests = await _hash_folder(folder)
    content = encode_manifest(digests)
    await asyncio.to_thread(_replace_file, folder / MANIFEST, content)
    return f"sha256:{compute_digest(content)}"


async def push_repository(folder: Path, url: str) -> str:
    """Publish a directory at a URL; the digest of its manifest. Files that are there already are
    not sent again. The manifest is written last: a reader who knows its digest finds the former
    repository, nothing, or this one."""
    digests = await _hash_folder(folder)
    try:
        location = parse_location(url)
        match location:
            case Path():
                return await asyncio.to_thread(_copy, folder, location, digests)
            case S3Settings():
                async with S3Store(location) as store:
                    return await _upload(folder, store, digests)
            case OciLocation():
                return await _push_artifact(folder, location, digests)
    except ObjectStoreError as error:
        raise translate_store_error(error) from error


async def _hash_folder(folder: Path) -> dict[str, str]:
    def compute() -> dict[str, str]:
        digests: dict[str, str] = {}
        for each in walk_folder(folder):
            if each.path != MANIFEST:
                check_path(each.path, str(folder))
                with (folder / each.path).open("rb") as file:
                    digests[each.path] = hashlib.file_digest(file, "sha256").hexdigest()
        return digests

    digests = await asyncio.to_thread(compute)
    if not digests:
        raise RepositoryError(str(folder), "it has no files", "name a directory with models")
    return digests


async def _upload(folder: Path, store: ObjectStore, digests: Mapping[str, str]) -> str:
    present = await _read_present(store)
    sizes = {each.key: each.size async for each in store.list()}
    slots = asyncio.Semaphore(_CONCURRENCY)

    async def send(path: str) -> None:
        file = folder / path
        if present.get(path) == digests[path] and sizes.get(path) == file.stat().st_size:
            return
        async with slots:
            await store.upload(path, _read_pieces(file))

    try:
        async with asyncio.TaskGroup() as group:
            for path in digests:
                group.create_task(send(path))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    content = encode_manifest(digests)
    await store.put(MANIFEST, content)
    return f"sha256:{compute_digest(content)}"


async def _read_present(store: ObjectStore) -> dict[str, str]:
    try:
        found = await store.get(MANIFEST, max_bytes=MAX_MANIFEST_BYTES)
        return parse_manifest(found.body, f"{store.name}/{MANIFEST}")
    except (NotFound, RepositoryError):
        return {}  # a first push, or a damaged manifest that this one replaces


async def _read_pieces(path: Path) -> AsyncGenerator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


async def _push_artifact(folder: Path, location: OciLocation, digests: Mapping[str, str]) -> str:
    from kilonova.objectstore.oci.manifests import Descriptor
    from kilonova.objectstore.oci.repository import OciRepository  # loads aiohttp
    from kilonova.serving.repositories.artifacts import (
        ARTIFACT_TYPE,
        LAYER_TYPE,
        PATH_ANNOTATIONS,
    )

    if is_digest(location.reference):
        raise RepositoryError(location.name, "a digest cannot be pushed to", "name a tag")
    layers = tuple(
        (
            Descriptor(
                LAYER_TYPE,
                f"sha256:{digests[path]}",
                (folder / path).stat().st_size,
                {PATH_ANNOTATIONS[0]: path},
            ),
            folder / path,
        )
        for path in sorted(digests)
    )
    async with OciRepository(location) as repository:
        return await repository.push(location.reference or "latest", ARTIFACT_TYPE, layers)


def _copy(folder: Path, target: Path, digests: Mapping[str, str]) -> str:
    """Copy files into another directory. Blocking."""
    if target.resolve() == folder.resolve():
        fix = "use `kilonova models manifest`"
        raise RepositoryError(str(target), "it is the directory itself", fix)
    try:
        for path in sorted(digests):
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = _name_draft(place)
            shutil.copyfile(folder / path, draft)
            draft.replace(place)
        content = encode_manifest(digests)
        _replace_file(target / MANIFEST, content)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        fix = "check the directory and its permissions"
        raise RepositoryError(str(error.filename or target), problem, fix) from error
    return f"sha256:{compute_digest(content)}"


def _replace_file(path: Path, content: bytes) -> None:
    draft = _name_draft(path)
    draft.write_bytes(content)
    os.replace(draft, path)


def _name_draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")
