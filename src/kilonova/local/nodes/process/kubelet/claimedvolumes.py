"""What is behind a PersistentVolumeClaim: a folder of this machine."""

from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.kube import Client, NotFound
from kilonova.kube.resource import plain
from kilonova.local.kinds.walk import part
from kilonova.local.nodes.process.kubelet.payloads import VolumeError

_CLAIMS = plain("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
_VOLUMES = plain("", "v1", "persistentvolumes", "PersistentVolume", False)


class ClaimedVolumes:
    """`provisioned` is where the cluster's own provisioner puts volumes."""

    def __init__(self, client: Client, provisioned: Path) -> None:
        self._client = client
        self._provisioned = provisioned

    async def host_path(self, namespace: str, claim: str) -> JsonObject:
        """The hostPath behind a claim that is bound; `VolumeError` says what is missing."""
        try:
            found = await self._client.get(_CLAIMS, claim, namespace)
            name: str = part(found, "spec").get("volumeName", "")
            if part(found, "status").get("phase") != "Bound" or not name:
                raise VolumeError(f'persistentvolumeclaim "{claim}" is not bound')
            volume = await self._client.get(_VOLUMES, name)
        except NotFound as error:
            raise VolumeError(error.message) from error
        spec = part(volume, "spec")
        source = part(spec, "hostPath") or part(spec, "local")
        if not source:
            raise VolumeError(
                f'persistentvolume "{name}" is no folder of this machine: use one of the class '
                "local, or with a hostPath"
            )
        return source

    def is_provisioned(self, path: Path) -> bool:
        """Whether a path is one that the cluster itself has given out."""
        return path.resolve().is_relative_to(self._provisioned.resolve())
