"""Local volumes provisioned on demand: directories on the node of the claim's first pod.

A volume called PV is in `DIRECTORY/PV`, where DIRECTORY is `volumes` in the cluster's data
directory. The node creates the directory when a pod first uses it. A cluster without a data
directory has only simulated nodes, which write nothing: its volumes have a path, and no content.
"""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.controllers.volumes.binding_plan import build_claim_reference
from kilonova.local.controllers.volumes.objects import (
    DEFAULT_CLASS,
    PROVISIONED_BY,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.objects.core import Node

PROVISIONER = "kilonova.dev/local"
CLASS_NAME = "local"

_HOSTNAME_LABEL = "kubernetes.io/hostname"


def build_local_class() -> JsonObject:
    """The default storage class."""
    return {
        "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS[0]: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def find_rejection(claim: VolumeClaim) -> str:
    """Why no volume can be provisioned for a claim; empty if one can."""
    if claim.spec.volume_mode == "Block":
        return "local volumes are directories, not block devices: use volumeMode: Filesystem"
    if claim.spec.selector is not None:
        return "a provisioned volume has no labels to select by: omit spec.selector"
    return ""


def volume_name(claim: VolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


@dataclass(frozen=True, slots=True)
class VolumeDirectories:
    """The directories of volumes. Without a root nothing is ever written or removed."""

    root: Path | None

    def path(self, volume: str) -> Path:
        """The directory of a volume."""
        root = self.root or Path(tempfile.gettempdir()) / "kilonova-volumes"
        return root / volume

    async def remove(self, volume: PersistentVolume) -> None:
        """Delete the content of a volume, if it was provisioned here."""
        path = self.path(volume.metadata.name)
        host_path = volume.spec.host_path
        if self.root is None or host_path is None or Path(host_path.path) != path:
            return
        if path.is_dir() and not path.is_symlink():
            await asyncio.to_thread(shutil.rmtree, path)


def build_local_volume(
    claim: VolumeClaim, storage_class: StorageClass, node: Node | None, directory: Path
) -> JsonObject:
    """The volume to create for a claim; only `node` can access it, if one is given."""
    spec: JsonObject = {
        "capacity": {"storage": claim.requested_storage},
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode,
        "hostPath": {"path": str(directory), "type": "DirectoryOrCreate"},
        "claimRef": build_claim_reference(claim),
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    if node is not None:
        value = node.metadata.labels.get(_HOSTNAME_LABEL, node.metadata.name)
        requirement = {"key": _HOSTNAME_LABEL, "operator": "In", "values": [value]}
        term = {"matchExpressions": [requirement]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }
