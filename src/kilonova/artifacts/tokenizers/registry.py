"""Tokenizers as artifacts of an OCI registry: a tag for each, and a layer for each file."""

from kilonova.artifacts.tokenizers.cache_info import Files, is_file_name
from kilonova.artifacts.tokenizers.errors import InvalidTokenizer
from kilonova.artifacts.tokenizers.names import is_normalised
from kilonova.artifacts.tokenizers.places import (
    MAX_FILE_BYTES,
    TokenizerPlace,
    missing_tokenizer,
    translate_store_error,
)
from kilonova.objectstore import NotFound, ObjectStoreError
from kilonova.objectstore.oci.location import OciLocation, is_digest
from kilonova.objectstore.oci.manifests import Descriptor, describe
from kilonova.objectstore.oci.repository import OciRepository

ARTIFACT_TYPE = "application/vnd.kilonova.tokenizer.v1"
_LAYER_TYPE = "application/octet-stream"
_TITLE = "org.opencontainers.image.title"


class RegistryPlace(TokenizerPlace):
    """Tokenizers in a repository of a registry."""

    def __init__(self, location: OciLocation) -> None:
        self.name = location.name
        self._repository = OciRepository(location)

    async def list(self) -> tuple[str, ...]:
        try:
            return tuple(filter(is_normalised, await self._repository.list_tags()))
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def read(self, key: str) -> Files:
        return (await self.pull(key))[1]

    async def pull(self, reference: str) -> tuple[str, Files]:
        """The digest and the files of any artifact whose layers have names, as `oras` makes them:
        by tag or digest."""
        where = self.locate(reference)
        try:
            pulled = await self._repository.pull_manifest(reference)
            files: dict[str, bytes] = {}
            for layer in pulled.manifest.layers:
                files[_get_name(layer, where)] = await self._repository.pull_blob(
                    layer, max_bytes=MAX_FILE_BYTES
                )
        except NotFound as error:
            raise missing_tokenizer(self, reference) from error
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        return pulled.digest, files

    async def write(self, key: str, files: Files) -> None:
        layers = tuple(
            (describe(content, _LAYER_TYPE, {_TITLE: name}), content)
            for name, content in sorted(files.items())
        )
        try:
            await self._repository.push(key, ARTIFACT_TYPE, layers)
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def close(self) -> None:
        await self._repository.close()

    def locate(self, key: str) -> str:
        return f"{self.name}{'@' if is_digest(key) else ':'}{key}"


def _get_name(layer: Descriptor, where: str) -> str:
    name = layer.annotations.get(_TITLE, "")
    if not is_file_name(name):
        problem = f"a layer has no name of a file: {_TITLE} is {name[:80]!r}"
        raise InvalidTokenizer(where, problem, "push the files with `oras push`")
    return name
