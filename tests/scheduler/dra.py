"""Drivers, claims and pods that claim devices, for tests of the scheduler."""

from typing import Any

from kilonova.kube import Client
from kilonova.kube.resource import plain

DRIVER = "gpu.example.com"
_GROUP = "resource.k8s.io"
SLICES = plain(_GROUP, "v1", "resourceslices", "ResourceSlice", False)
CLASSES = plain(_GROUP, "v1", "deviceclasses", "DeviceClass", False)
CLAIMS = plain(_GROUP, "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = plain(_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)


async def publish(client: Client, node: str, count: int, memory: str = "80Gi") -> None:
    """A slice of equal devices on a node."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": "gpu"}, "index": {"int": index}},
            "capacity": {"memory": {"value": memory}},
        }
        for index in range(count)
    ]
    await publish_slice(client, node, {"nodeName": node, "devices": devices})


async def publish_slice(
    client: Client, pool: str, spec: dict[str, Any], *, name: str = "", slices: int = 1
) -> None:
    """A slice of a pool that has so many."""
    body = {
        "metadata": {"name": name or f"{pool}-slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": slices},
            **spec,
        },
    }
    await client.create(SLICES, body)


async def make_class(client: Client, name: str = "gpu", **spec: Any) -> None:
    """A class of all devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    await client.create(
        CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    )


def asking(count: int = 1, selector: str = "", class_: str = "gpu") -> dict[str, Any]:
    """What a claim asks for: so many devices of a class."""
    exactly: dict[str, Any] = {"deviceClassName": class_, "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


async def make_template(client: Client, namespace: str, name: str, spec: dict[str, Any]) -> None:
    """A template of claims."""
    body = {"metadata": {"name": name}, "spec": {"spec": spec}}
    await client.create(TEMPLATES, body, namespace)


async def make_claim(client: Client, namespace: str, name: str, spec: dict[str, Any]) -> None:
    """A claim that several pods may use."""
    await client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace)


def of_template(name: str) -> dict[str, Any]:
    """Of a pod's spec: a claim of its own."""
    return {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": name}]}


def of_claim(name: str) -> dict[str, Any]:
    """Of a pod's spec: a claim that is there."""
    return {"resourceClaims": [{"name": "devices", "resourceClaimName": name}]}


async def given(client: Client, namespace: str) -> dict[str, list[str]]:
    """By claim that has some, its devices, as POOL/DEVICE."""
    listing = await client.list(CLAIMS, namespace)
    found: dict[str, list[str]] = {}
    for claim in listing.items:
        allocation = claim.get("status", {}).get("allocation")
        if allocation:
            results = allocation["devices"].get("results", [])
            found[claim["metadata"]["name"]] = [f"{r['pool']}/{r['device']}" for r in results]
    return found
