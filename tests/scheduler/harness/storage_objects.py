"""Volumes, claims and pods that use them, for tests of the scheduler."""

from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import PODS
from tests.scheduler.harness.embedded_scheduler import GANGS, gang, pod

NS = "default"
CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES = unstructured_resource("", "v1", "persistentvolumes", "PersistentVolume", False)
CLASSES = unstructured_resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_NODES = unstructured_resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
HOST = "kubernetes.io/hostname"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


async def create_volume_claim(client: Client, name: str, storage_class: str = "local") -> None:
    """A claim of 1 GiB."""
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, NS)


async def create_storage_class(client: Client, name: str, provisioner: str, mode: str) -> None:
    """A StorageClass with immediate or delayed binding."""
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    await client.create(CLASSES, body)


async def create_volume(
    client: Client, name: str, node: str, storage_class: str = "static", **source: Any
) -> None:
    """A volume that is accessible from one node, or without one from all."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        **(source or {"local": {"path": f"/volumes/{name}"}}),
    }
    if node:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    await client.create(VOLUMES, {"metadata": {"name": name}, "spec": spec})


def pod_volumes(*claims: str) -> dict[str, Any]:
    """Part of a pod's spec: volumes of claims."""
    return {
        "volumes": [
            {"name": f"v{index}", "persistentVolumeClaim": {"claimName": claim}}
            for index, claim in enumerate(claims)
        ]
    }


async def create_gang_with_claims(
    client: Client, name: str, claims: list[str], gpus: int = 0
) -> list[str]:
    """A gang with a pod for each claim."""
    pods = [f"{name}-{claim}" for claim in claims]
    for each, claim in zip(pods, claims, strict=True):
        await client.create(PODS, pod(each, gpus, gang=name, **pod_volumes(claim)), NS)
    await client.create(GANGS, gang(name, {"w": pods}), NS)
    return pods


async def volume_of(client: Client, claim: str) -> str:
    """The volume of a claim; empty while it is unbound."""
    return (await client.get(CLAIMS, claim, NS))["spec"].get("volumeName", "")
