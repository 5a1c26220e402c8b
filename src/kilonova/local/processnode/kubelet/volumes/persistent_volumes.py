"""Resolves PersistentVolumeClaims to directories of this machine."""

from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.kube import Client, NotFound
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.processnode.kubelet.volumes.projection import VolumeError

_CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
_VOLUMES = unstructured_resource("", "v1", "persistentvolumes", "PersistentVolume", False)


class PersistentVolumeResolver:
    """`provisioned_root` is the directory of volumes that the cluster itself provisions."""

    def __init__(self, client: Client, provisioned_root: Path) -> None:
        self._client = client
        self._provisioned_root = provisioned_root

    async def resolve_host_path(self, namespace: str, claim: str) -> JsonObject:
        """The hostPath of a bound claim; `VolumeError` states what is missing."""
        try:
            found = await self._client.get(_CLAIMS, claim, namespace)
            name: str = nested_object(found, "spec").get("volumeName", "")
            if nested_object(found, "status").get("phase") != "Bound" or not name:
                raise VolumeError(f'persistentvolumeclaim "{claim}" is not bound')
            volume = await self._client.get(_VOLUMES, name)
        except NotFound as error:
            raise VolumeError(error.message) from error
        spec = nested_object(volume, "spec")
        source = nested_object(spec, "hostPath") or nested_object(spec, "local")
        if not source:
            raise VolumeError(
                f'persistentvolume "{name}" is not a directory of this machine: use a volume of '
                "the storage class local, or with a hostPath"
            )
        return source

    def is_provisioned(self, path: Path) -> bool:
        """Whether a path belongs to a volume that the cluster itself provisioned."""
        return path.resolve().is_relative_to(self._provisioned_root.resolve())
