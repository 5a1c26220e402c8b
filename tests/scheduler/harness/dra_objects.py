"""DRA drivers, claims and pods with claims, for tests of the scheduler."""

from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource

DRIVER = "gpu.example.com"
_GROUP = "resource.k8s.io"
SLICES = unstructured_resource(_GROUP, "v1", "resourceslices", "ResourceSlice", False)
CLASSES = unstructured_resource(_GROUP, "v1", "deviceclasses", "DeviceClass", False)
CLAIMS = unstructured_resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = unstructured_resource(
    _GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)


async def publish_node_devices(
    client: Client, node: str, count: int, memory: str = "80Gi", *, kind: str = "gpu"
) -> None:
    """A slice of equal devices on a node; those of kind `gpu` are the GPUs of the node."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": kind}, "index": {"int": index}},
            "capacity": {"memory": {"value": memory}},
        }
        for index in range(count)
    ]
    await publish_slice(client, node, {"nodeName": node, "devices": devices})


async def publish_slice(
    client: Client, pool: str, spec: dict[str, Any], *, name: str = "", slices: int = 1
) -> None:
    """A slice of a pool with this number of slices."""
    body = {
        "metadata": {"name": name or f"{pool}-slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": slices},
            **spec,
        },
    }
    await client.create(SLICES, body)


async def create_device_class(client: Client, name: str = "gpu", **spec: Any) -> None:
    """A DeviceClass of all devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    await client.create(
        CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    )


def claim_spec(count: int = 1, selector: str = "", class_: str = "gpu") -> dict[str, Any]:
    """The spec of a claim for a number of devices."""
    exactly: dict[str, Any] = {"deviceClassName": class_, "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


async def create_claim_template(
    client: Client, namespace: str, name: str, spec: dict[str, Any]
) -> None:
    """A claim template."""
    body = {"metadata": {"name": name}, "spec": {"spec": spec}}
    await client.create(TEMPLATES, body, namespace)


async def create_claim(client: Client, namespace: str, name: str, spec: dict[str, Any]) -> None:
    """A claim that several pods may use."""
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace)


def pod_claim_from_template(name: str) -> dict[str, Any]:
    """Part of a pod's spec: a claim from a template."""
    return {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": name}]}


def pod_claim_by_name(name: str) -> dict[str, Any]:
    """Part of a pod's spec: an existing claim."""
    return {"resourceClaims": [{"name": "devices", "resourceClaimName": name}]}


async def allocated_devices(client: Client, namespace: str) -> dict[str, list[str]]:
    """The devices of each allocated claim, as POOL/DEVICE."""
    listing = await client.list(CLAIMS, namespace)
    found: dict[str, list[str]] = {}
    for claim in listing.items:
        allocation = claim.get("status", {}).get("allocation")
        if allocation:
            results = allocation["devices"].get("results", [])
            found[claim["metadata"]["name"]] = [f"{r['pool']}/{r['device']}" for r in results]
    return found
