"""What a repository has: its files with their checksums, and its models."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kilonova.api.serving.repositories import RepositoryLayout
from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.layouts import arrange_paths, find_models, group_by_model
from kilonova.serving.repositories.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    check_path,
    compute_digest,
    parse_manifest,
    verify_digest,
)
from kilonova.serving.repositories.sources import RepositorySource, SourceFile


@dataclass(frozen=True, slots=True)
class RepositoryModel:
    """A model of a repository."""

    name: str
    files: int
    size: int
    """The bytes of its files."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of a repository, by where they go in a directory."""

    files: dict[str, SourceFile]
    models: tuple[str, ...]
    """The folders of models."""
    digest: str = ""
    """`sha256:…` of the manifest that names all files; empty without one."""
    left_out: int = 0
    """Files that the manifest does not list, and that are not downloaded."""

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files.values())

    def list_models(self) -> list[RepositoryModel]:
        """The models; one that is the whole repository is called `.`."""
        paths = group_by_model(self.files, self.models)
        return [
            RepositoryModel(
                name or ".", len(paths[name]), sum(self.files[each].size for each in paths[name])
            )
            for name in self.models
        ]


async def read_contents(
    source: RepositorySource, layout: RepositoryLayout, checksum: str = ""
) -> Contents:
    """List a repository, and verify its manifest if `checksum` (`sha256:…`) is given."""
    listed = await source.list_files()
    for each in listed:
        check_path(each.path, source.name)
    digest, files = source.digest, listed
    if not digest:
        manifest = next((each for each in listed if each.path == MANIFEST), None)
        if manifest is not None:
            content = await _read_manifest(source, manifest)
            digest = f"sha256:{compute_digest(content)}"
            _verify_checksum(source.locate(MANIFEST), digest, checksum)
            digests = parse_manifest(content, source.locate(MANIFEST))
            files = _select_listed(source, listed, {**digests, MANIFEST: digest[7:]})
        elif checksum:
            fix = "write one with `kilonova models manifest`, or give no checksum"
            raise RepositoryError(source.name, f"it has no {MANIFEST} for the checksum", fix)
    else:
        _verify_checksum(source.name, digest, checksum)
    arranged = arrange_paths((each.path for each in files), layout, source.name)
    by_path = {each.path: each for each in files}
    placed = {target: by_path[path] for path, target in arranged.items()}
    _check_nesting(placed, source.name)
    models = find_models(placed, layout, source.name)
    return Contents(placed, models, digest, len(listed) - len(files))


async def _read_manifest(source: RepositorySource, manifest: SourceFile) -> bytes:
    where = source.locate(MANIFEST)
    if manifest.size > MAX_MANIFEST_BYTES:
        problem = f"it has {manifest.size} bytes, more than {MAX_MANIFEST_BYTES}"
        raise RepositoryError(where, problem, "check that it is a manifest")
    async with source.open(manifest) as pieces:
        return b"".join([piece async for piece in pieces])


def _verify_checksum(where: str, digest: str, checksum: str) -> None:
    if checksum:
        verify_digest(where, digest, checksum)


def _select_listed(
    source: RepositorySource, listed: Iterable[SourceFile], digests: Mapping[str, str]
) -> tuple[SourceFile, ...]:
    """The files of a manifest: others are not verified by anything."""
    present = {each.path: each for each in listed}
    for path in digests:
        if path not in present:
            fix = "push the repository again"
            raise RepositoryError(
                source.locate(path), f"{MANIFEST} lists it, and it is missing", fix
            )
    return tuple(replace(present[path], sha256=digest) for path, digest in digests.items())


def _check_nesting(files: Iterable[str], where: str) -> None:
    """A store may have `a` beside `a/b`; a directory cannot."""
    paths = set(files)
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in paths:
                problem = f"{'/'.join(parts[:end])!r} is a file, and the folder of {path!r}"
                raise RepositoryError(where, problem, "rename one of them")
