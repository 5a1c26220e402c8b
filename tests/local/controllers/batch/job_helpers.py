"""Jobs for tests, and their results."""

from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import EVENTS, PODS, advance_time, wait_for_condition

JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)


def job(name: str, *, seconds: float = 5, code: int = 0, policy: str = "Never", **spec: Any) -> Any:
    """A Job whose pods run for some seconds and then exit."""
    annotations = {
        "sim.kilonova.dev/run-seconds": str(seconds),
        "sim.kilonova.dev/exit-code": str(code),
    }
    pod_spec = {"restartPolicy": policy, "containers": [{"name": "main", "image": "img"}]}
    template = {"metadata": {"annotations": annotations}, "spec": pod_spec}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


async def status_of(client: Client, name: str) -> Any:
    return (await client.get(JOBS, name, "default")).get("status", {})


def condition(status: Any, type_: str) -> Any:
    found = [each for each in status.get("conditions", []) if each["type"] == type_]
    return found[0] if found and found[0]["status"] == "True" else None


async def wait_ended(client: Client, name: str, *, within: float = 600) -> Any:
    async def over() -> bool:
        status = await status_of(client, name)
        return bool(condition(status, "Complete") or condition(status, "Failed"))

    await wait_for_condition(over, within=within)
    return await status_of(client, name)


async def pods_of(client: Client, name: str) -> list[Any]:
    listing = await client.list(
        PODS, "default", label_selector=f"batch.kubernetes.io/job-name={name}"
    )
    return listing.items


async def events_of(client: Client, name: str) -> list[tuple[str, str]]:
    await advance_time()
    found = (await client.list(EVENTS, "default")).items
    return [
        (each["reason"], each["message"])
        for each in found
        if each["involvedObject"]["name"] == name
    ]
