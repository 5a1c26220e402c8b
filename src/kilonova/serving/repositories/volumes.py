"""The volumes by which the containers of a server see its models. Pure.

A repository in a file system is mounted, one in an object store is downloaded into an emptyDir by
an init container, before the server starts.
"""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.api.serving import (
    CvmfsSource,
    DirectorySource,
    ModelRepository,
    NfsSource,
    ObjectStoreSource,
    PersistentVolumeSource,
)
from kilonova.objectstore.locations import parse_location

VOLUME = "models"
"""The volume that servers mount."""
SOURCE_VOLUME = "models-source"
"""The folder of the node that a download reads, for `file://`."""
DOWNLOAD_CONTAINER = "download-models"

_CVMFS_PATH = "/cvmfs"
_SOURCE_PATH = "/models-source"
_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"cpu": "2", "memory": "1Gi"},
}
"""Of a download: namespaces with a quota want them. Files are not held in memory."""


@dataclass(frozen=True, slots=True)
class RepositoryVolumes:
    """What a pod template gets, and what exists beside it."""

    volumes: tuple[JsonObject, ...] = ()
    volume_mounts: tuple[JsonObject, ...] = ()
    """Of each container of the server; read-only."""
    init_containers: tuple[JsonObject, ...] = ()
    """They run before all others."""
    claims: tuple[JsonObject, ...] = ()
    """PersistentVolumeClaims, created if they do not exist. They may be shared, so they belong to
    no service, and are kept when one is deleted."""


def build_repository_volumes(repository: ModelRepository | None, image: str) -> RepositoryVolumes:
    """The volumes of a repository; `image` is Kilonova's, which downloads. None is no repository.

    `ObjectStoreError` if the URL of an object store names no location.
    """
    if repository is None:
        return RepositoryVolumes()
    path = repository.mount_path
    match _get_source(repository):
        case PersistentVolumeSource() as claim:
            volume = {
                "persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": True},
            }
            part = {"subPath": claim.sub_path} if claim.sub_path else {}
            return _build_mounted(path, volume, part)
        case NfsSource() as nfs:
            volume = {"nfs": {"server": nfs.server, "path": nfs.path, "readOnly": True}}
            return _build_mounted(path, volume)
        case DirectorySource() as directory:
            return _build_mounted(path, _build_host_path(directory.path))
        case CvmfsSource() as cvmfs:
            return _build_cvmfs(path, cvmfs)
        case ObjectStoreSource() as store:
            return _build_downloaded(repository, store, image)


def _get_source(
    repository: ModelRepository,
) -> PersistentVolumeSource | NfsSource | DirectorySource | CvmfsSource | ObjectStoreSource:
    source = (
        repository.persistent_volume_claim
        or repository.nfs
        or repository.directory
        or repository.cvmfs
        or repository.object_store
    )
    assert source is not None, "the schema requires exactly one"
    return source


def _build_mounted(
    path: str, volume: JsonObject, mount: JsonObject | None = None
) -> RepositoryVolumes:
    return RepositoryVolumes(
        volumes=({"name": VOLUME, **volume},),
        volume_mounts=({"name": VOLUME, "mountPath": path, "readOnly": True, **(mount or {})},),
    )


def _build_host_path(path: str) -> JsonObject:
    # Without a type the kubelet would create an empty directory, and the server have no models.
    return {"hostPath": {"path": path, "type": "Directory"}}


def _build_cvmfs(path: str, cvmfs: CvmfsSource) -> RepositoryVolumes:
    """CVMFS mounts its repositories when they are first used, which containers see by propagation
    alone."""
    propagation = {"mountPropagation": "HostToContainer"}
    if cvmfs.mount == "HostPath":
        return _build_mounted(path, _build_host_path(_CVMFS_PATH), propagation)
    volume = {"persistentVolumeClaim": {"claimName": cvmfs.claim_name, "readOnly": True}}
    mounted = _build_mounted(path, volume, propagation)
    claim: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": cvmfs.claim_name},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            # The size means nothing to CVMFS, but a claim needs one.
            "resources": {"requests": {"storage": "1"}},
            "storageClassName": cvmfs.storage_class_name,
        },
    }
    return RepositoryVolumes(mounted.volumes, mounted.volume_mounts, claims=(claim,))


def _build_downloaded(
    repository: ModelRepository, store: ObjectStoreSource, image: str
) -> RepositoryVolumes:
    path, size = repository.mount_path, store.size
    limit = {} if size is None else {"sizeLimit": size}
    volumes: list[JsonObject] = [{"name": VOLUME, "emptyDir": limit}]
    mounts: list[JsonObject] = [{"name": VOLUME, "mountPath": path}]
    url = store.url
    if url.startswith("file:"):
        folder = str(parse_location(url))
        volumes.append({"name": SOURCE_VOLUME, **_build_host_path(folder)})
        mounts.append({"name": SOURCE_VOLUME, "mountPath": _SOURCE_PATH, "readOnly": True})
        url = f"file://{_SOURCE_PATH}"
    options = [f"--layout={repository.layout}"]
    if store.checksum:
        options.append(f"--checksum={store.checksum}")
    if size is not None:
        options.append(f"--max-size={size}")
    container: JsonObject = {
        "name": DOWNLOAD_CONTAINER,
        "image": image,
        "command": ["kilonova", "models", "pull"],
        "args": [url, path, *options],
        "resources": _RESOURCES,
        "volumeMounts": mounts,
        # The reason of a failure is in the status of the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if store.endpoint:
        container["env"] = [{"name": "AWS_ENDPOINT_URL_S3", "value": store.endpoint}]
    if store.credentials is not None:
        container["envFrom"] = [{"secretRef": {"name": store.credentials.name}}]
    return RepositoryVolumes(
        volumes=tuple(volumes),
        volume_mounts=({"name": VOLUME, "mountPath": path, "readOnly": True},),
        init_containers=(container,),
    )
