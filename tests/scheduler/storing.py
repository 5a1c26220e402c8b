"""Volumes, claims to them and pods that use them, for tests of the scheduler."""

from typing import Any

from kilonova.kube import Client
from kilonova.kube.resource import plain
from tests.local.embedded_cluster import PODS
from tests.scheduler.scheduling import GANGS, gang, pod

NS = "default"
CLAIMS = plain("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES = plain("", "v1", "persistentvolumes", "PersistentVolume", False)
CLASSES = plain("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_NODES = plain("storage.k8s.io", "v1", "csinodes", "CSINode", False)
HOST = "kubernetes.io/hostname"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


async def make_claim(client: Client, name: str, of: str = "local") -> None:
    """A claim to 1 GiB."""
    spec = {
        "storageClassName": of,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, NS)


async def make_class(client: Client, name: str, provisioner: str, mode: str) -> None:
    """A class whose claims are bound at once, or wait for their first pod."""
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    await client.create(CLASSES, body)


async def make_volume(
    client: Client, name: str, node: str, of: str = "static", **source: Any
) -> None:
    """A volume that one node reaches; without a node, all do."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "persistentVolumeReclaimPolicy": "Retain",
        **(source or {"local": {"path": f"/volumes/{name}"}}),
    }
    if node:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    await client.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})


def using(*claims: str) -> dict[str, Any]:
    """Of a pod's spec: volumes of claims."""
    return {
        "volumes": [
            {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
            for index, claim in enumerate(claims)
        ]
    }


async def make_gang(client: Client, name: str, claims: list[str], gpus: int = 0) -> list[str]:
    """A gang with a pod for each claim."""
    pods = [f"{name}-{claim}" for claim in claims]
    for each, claim in zip(pods, claims, strict=True):
        await client.create(PODS, pod(each, gpus, of=name, **using(claim)), NS)
    await client.create(GANGS, gang(name, {"w": pods}), NS)
    return pods


async def volume_of(client: Client, claim: str) -> str:
    """The volume that a claim has; empty while it has none."""
    return (await client.get(CLAIMS, claim, NS))["spec"].get("volumeName", "")
