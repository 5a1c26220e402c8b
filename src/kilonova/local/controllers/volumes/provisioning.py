"""Volumes made on demand: folders of the node that a claim's first pod is on.

A volume called PV lies in `FOLDER/PV`, where FOLDER is `volumes` in the cluster's data. The node
makes the folder when a pod first uses it. A cluster without data has only simulated nodes, which
write nothing: its volumes have a path, and nothing is there.
"""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.controllers.objects import Node
from kilonova.local.controllers.volumes.objects import (
    DEFAULT_CLASS,
    PROVISIONED_BY,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.steps import reference_to

PROVISIONER = "kilonova.dev/local"
CLASS_NAME = "local"

_HOSTNAME = "kubernetes.io/hostname"


def local_class() -> JsonObject:
    """The class that claims have which name none."""
    return {
        "metadata": {"name": CLASS_NAME, "annotations": {DEFAULT_CLASS[0]: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def refusal(claim: VolumeClaim) -> str:
    """Why no volume can be made for a claim; empty where one can."""
    if claim.spec.volume_mode == "Block":
        return "block volumes cannot be made from folders: use volumeMode: Filesystem"
    if claim.spec.selector is not None:
        return "a new volume has no labels to select by: leave spec.selector out"
    return ""


def volume_name(claim: VolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where volumes lie. Without a root nothing is ever written or removed."""

    root: Path | None

    def path(self, volume: str) -> Path:
        """The folder of a volume."""
        root = self.root or Path(tempfile.gettempdir()) / "kilonova-volumes"
        return root / volume

    async def remove(self, volume: PersistentVolume) -> None:
        """Delete what is in a volume, if it is one of ours."""
        path = self.path(volume.metadata.name)
        host_path = volume.spec.host_path
        if self.root is None or host_path is None or Path(host_path.path) != path:
            return
        if path.is_dir() and not path.is_symlink():
            await asyncio.to_thread(shutil.rmtree, path)


def local_volume(
    claim: VolumeClaim, storage_class: StorageClass, node: Node | None, folder: Path
) -> JsonObject:
    """The volume to create for a claim; only `node` can reach it, if one is given."""
    spec: JsonObject = {
        "capacity": {"storage": claim.requested},
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode,
        "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
        "claimRef": reference_to(claim),
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    if node is not None:
        value = node.metadata.labels.get(_HOSTNAME, node.metadata.name)
        requirement = {"key": _HOSTNAME, "operator": "In", "values": [value]}
        term = {"matchExpressions": [requirement]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }
