"""Repositories as artifacts of an OCI registry: a layer for each file, named as ORAS does it.

`oras push` makes such artifacts from files, as does `kilonova models push`. Layers that are
archives, as those of images, are refused: their files have no checksums of their own.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager

from kilonova.objectstore import ObjectStoreError
from kilonova.objectstore.oci.credentials import RegistryCredentials
from kilonova.objectstore.oci.location import OciLocation, is_digest
from kilonova.objectstore.oci.manifests import Descriptor
from kilonova.objectstore.oci.repository import OciRepository
from kilonova.serving.repositories.errors import RepositoryError, translate_store_error
from kilonova.serving.repositories.sources import RepositorySource, SourceFile

ARTIFACT_TYPE = "application/vnd.kilonova.models.v1"
LAYER_TYPE = "application/octet-stream"
PATH_ANNOTATIONS = ("org.opencontainers.image.title", "org.cncf.model.filepath")
"""Where the path of a layer's file is: as ORAS has it, and as the model specification of the
CNCF."""
_ARCHIVE = re.compile(r"\btar\b")
_UNPACK = "io.deis.oras.content.unpack"


class ArtifactSource(RepositorySource):
    """A repository that is one artifact."""

    def __init__(
        self, location: OciLocation, credentials: RegistryCredentials | None = None
    ) -> None:
        self._reference = location.reference or "latest"
        separator = "@" if is_digest(self._reference) else ":"
        self.name = f"{location.name}{separator}{self._reference}"
        self._repository = OciRepository(location, credentials)
        self._layers: dict[str, Descriptor] = {}

    async def list_files(self) -> tuple[SourceFile, ...]:
        try:
            pulled = await self._repository.pull_manifest(self._reference)
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        self.digest = pulled.digest
        for layer in pulled.manifest.layers:
            self._layers[_read_path(layer, self.name)] = layer
        return tuple(
            SourceFile(path, each.size, each.digest, each.digest.removeprefix("sha256:"))
            for path, each in self._layers.items()
        )

    @asynccontextmanager
    async def open(self, file: SourceFile) -> AsyncGenerator[AsyncIterable[bytes]]:
        try:
            async with self._repository.open_blob(self._layers[file.path]) as pieces:
                yield pieces
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def close(self) -> None:
        await self._repository.close()


def _read_path(layer: Descriptor, where: str) -> str:
    fix = "push its files with `kilonova models push`, or with `oras push`"
    if not is_digest(layer.digest):
        raise RepositoryError(where, f"the digest {layer.digest[:80]!r} is not of SHA-256", fix)
    path = next(filter(None, (layer.annotations.get(each) for each in PATH_ANNOTATIONS)), None)
    is_archive = (
        _ARCHIVE.search(layer.media_type) is not None or layer.annotations.get(_UNPACK) == "true"
    )
    if path is None or is_archive:
        problem = f"its layer {layer.digest} of type {layer.media_type} is not a file"
        raise RepositoryError(where, problem, fix)
    return path
