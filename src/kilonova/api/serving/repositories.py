"""Where the models of servers come from."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.serving.common import ModelName, Quantity, ResourceName, SecretKey
from kilonova.api.validation_rules import ValidationRule

DEFAULT_MOUNT_PATH = "/models"

RepositoryLayout = Literal["Triton", "HuggingFace"]


class PersistentVolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A PersistentVolumeClaim of the same namespace."""

    claim_name: ResourceName
    """The name of the claim."""
    sub_path: str = ""
    """A folder in the volume."""


class NfsSource(msgspec.Struct, frozen=True, gc=False):
    """An NFS export, mounted by the node."""

    server: Annotated[str, Meta(min_length=1)]
    """The host name or address of the server."""
    path: Annotated[str, Meta(pattern="^/")]
    """The exported folder."""


class DirectorySource(msgspec.Struct, frozen=True, gc=False):
    """A directory of the node."""

    path: Annotated[str, Meta(pattern="^/")]
    """Its absolute path."""


class CvmfsSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """CVMFS: by a claim of the class `cvmfs` of cvmfs-csi, or from the node."""

    mount: Annotated[
        Literal["PersistentVolumeClaim", "HostPath"],
        Meta(extra={"default": "PersistentVolumeClaim"}),
    ] = "PersistentVolumeClaim"
    """PersistentVolumeClaim mounts a claim that is created with the storage class, HostPath mounts
    `/cvmfs` of the node."""
    storage_class_name: Annotated[str, Meta(extra={"default": "cvmfs"})] = "cvmfs"
    """The storage class of the claim."""
    claim_name: Annotated[str, Meta(extra={"default": "cvmfs"})] = "cvmfs"
    """The name of the claim; it is kept when the service is deleted."""


class ObjectStoreSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Files that are downloaded before the server starts: S3 or an OCI registry."""

    url: Annotated[str, Meta(pattern="^(s3|oci|file)://")]
    """`s3://BUCKET/PREFIX`, `oci://REGISTRY/REPOSITORY:TAG`, or `file:///FOLDER`."""
    endpoint: str = ""
    """The endpoint of an S3 server other than that of AWS."""
    credentials: SecretKey | None = None
    """A Secret whose keys become environment variables of the download, such as
    AWS_ACCESS_KEY_ID; `key` is ignored."""
    checksum: Annotated[str, Meta(pattern="^(sha256:[0-9a-f]{64})?$")] = ""
    """The digest of the manifest `SHA256SUMS` of the repository (S3, file), or of the OCI manifest.
    Without one, files are verified by the checksums of the store alone."""
    size: Quantity | None = None
    """The space for the files on the node. Defaults to no limit."""


class ModelRepository(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The models of a group of servers, mounted read-only."""

    RULES: ClassVar = (
        ValidationRule(
            "[has(self.persistentVolumeClaim), has(self.nfs), has(self.directory),"
            " has(self.cvmfs), has(self.objectStore)].filter(each, each).size() == 1",
            "set exactly one of persistentVolumeClaim, nfs, directory, cvmfs and objectStore",
        ),
    )

    mount_path: Annotated[str, Meta(pattern="^/", extra={"default": DEFAULT_MOUNT_PATH})] = (
        DEFAULT_MOUNT_PATH
    )
    """Where the containers see it."""
    layout: Annotated[RepositoryLayout, Meta(extra={"default": "Triton"})] = "Triton"
    """Triton has a folder for each model, with versions; HuggingFace has the files of a snapshot
    for each model."""
    persistent_volume_claim: PersistentVolumeSource | None = None
    nfs: NfsSource | None = None
    directory: DirectorySource | None = None
    cvmfs: CvmfsSource | None = None
    object_store: ObjectStoreSource | None = None


class Model(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A model that servers of the group load at run time."""

    name: ModelName
    """The name of the model in the repository."""
    memory: Quantity | None = None
    """The accelerator memory of a loaded copy, by which models are placed over servers."""
    min_copies: Annotated[int, Meta(ge=0, extra={"format": "int32", "default": 1})] = 1
    """The number of servers that have it loaded at least; 0 loads it when it is asked for."""
    max_copies: Annotated[int, Meta(ge=0, extra={"format": "int32"})] | None = None
    """The number of servers that have it loaded at most. Defaults to all of the group."""


class ModelPlacement(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How models are spread over the servers of a group, and loaded at run time."""

    models: Annotated[
        tuple[Model, ...], Meta(max_length=1024, extra={"list": "map", "keys": ["name"]})
    ] = ()
    """The models that are managed."""
    server_memory: Quantity | None = None
    """The accelerator memory of a server for models. Without it every server loads every model."""


__all__ = [
    "DEFAULT_MOUNT_PATH",
    "CvmfsSource",
    "DirectorySource",
    "Model",
    "ModelPlacement",
    "ModelRepository",
    "NfsSource",
    "ObjectStoreSource",
    "PersistentVolumeSource",
    "RepositoryLayout",
]
