"""Builds as artifacts of an OCI registry: a tag for each, whose one layer is the file of the build.

The digests of manifest and layer are the checksums. With `sha256:…` in place of an id, a build is
loaded by the digest of its manifest.
"""

from kilonova.artifacts.builds.build import Build
from kilonova.artifacts.builds.errors import BuildNotFound, InvalidBuild
from kilonova.artifacts.builds.files import BuildSource, translate_store_error, verify_unchanged
from kilonova.artifacts.builds.parser import (
    MAX_BUILD_BYTES,
    check_build_id,
    encode_build,
    is_build_id,
    parse_build,
)
from kilonova.objectstore import ChecksumMismatch, NotFound, ObjectStoreError
from kilonova.objectstore.oci.credentials import RegistryCredentials
from kilonova.objectstore.oci.location import OciLocation, is_digest
from kilonova.objectstore.oci.manifests import describe
from kilonova.objectstore.oci.repository import OciRepository

ARTIFACT_TYPE = "application/vnd.kilonova.build.v1"
LAYER_TYPE = "application/vnd.kilonova.build.v1+json"
_TITLE = "org.opencontainers.image.title"
"""The name that tools give the file of a layer."""


class RegistryBuilds(BuildSource):
    """Builds in a repository of a registry."""

    def __init__(
        self, location: OciLocation, credentials: RegistryCredentials | None = None
    ) -> None:
        self.name = location.name
        self._repository = OciRepository(location, credentials)

    async def load(self, build_id: str) -> Build:
        if not is_digest(build_id):
            check_build_id(build_id, self.name)
        where = f"{self.name}{'@' if is_digest(build_id) else ':'}{build_id}"
        content = await self._pull(where, build_id)
        return parse_build(content, where, build_id="" if is_digest(build_id) else build_id)

    async def list(self) -> tuple[str, ...]:
        try:
            return tuple(filter(is_build_id, await self._repository.list_tags()))
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def save(self, build: Build) -> str:
        content = encode_build(build)
        where = f"{self.name}:{build.id}"
        parse_build(content, where)
        try:
            present = await self._pull(where, build.id)
        except BuildNotFound:
            pass
        else:
            verify_unchanged(where, present, content)
        layer = describe(content, LAYER_TYPE, {_TITLE: f"{build.id}.json"})
        try:
            pushed = await self._repository.push(build.id, ARTIFACT_TYPE, ((layer, content),))
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        return f"{self.name}@{pushed}"

    async def close(self) -> None:
        await self._repository.close()

    async def _pull(self, where: str, reference: str) -> bytes:
        try:
            manifest = (await self._repository.pull_manifest(reference)).manifest
            if manifest.type != ARTIFACT_TYPE or len(manifest.layers) != 1:
                problem = f"it is not a build, but an artifact of type {manifest.type}"
                raise InvalidBuild(where, problem, "correct the repository or the id")
            return await self._repository.pull_blob(manifest.layers[0], max_bytes=MAX_BUILD_BYTES)
        except NotFound as error:
            raise BuildNotFound(where, "there is no such build") from error
        except ChecksumMismatch as error:
            raise InvalidBuild(error.where, error.problem, error.fix) from error
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
