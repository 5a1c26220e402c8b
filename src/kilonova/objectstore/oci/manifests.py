"""Manifests and descriptors of the OCI image specification 1.1, as artifacts use them."""

import hashlib

import msgspec

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY_CONTENT = b"{}"
"""The config of an artifact that has none."""


class Descriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A blob: what it is, and its digest."""

    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] = {}


class Manifest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An artifact: its type, and its blobs in order."""

    schema_version: int
    media_type: str = ""
    artifact_type: str = ""
    config: Descriptor
    layers: tuple[Descriptor, ...] = ()
    annotations: dict[str, str] = {}

    @property
    def type(self) -> str:
        """The type of the artifact; older tools write it as the type of the config."""
        return self.artifact_type or self.config.media_type


def build_manifest(
    artifact_type: str, layers: tuple[Descriptor, ...], annotations: dict[str, str]
) -> Manifest:
    """The manifest of an artifact without a config."""
    return Manifest(
        schema_version=2,
        media_type=MANIFEST_TYPE,
        artifact_type=artifact_type,
        config=describe(EMPTY_CONTENT, EMPTY_TYPE),
        layers=layers,
        annotations=annotations,
    )


def describe(
    content: bytes, media_type: str, annotations: dict[str, str] | None = None
) -> Descriptor:
    """The descriptor of a blob."""
    return Descriptor(media_type, digest(content), len(content), annotations or {})


def digest(content: bytes) -> str:
    """The digest of a content: `sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
