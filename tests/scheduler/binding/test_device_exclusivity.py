"""Claims, whole GPUs, shares and MIG instances compete for the GPUs of a node: the node, which
refuses what is in use, never refuses a pod."""

from random import Random
from typing import Any

from kilonova.api.gpu.annotations import DEVICES
from kilonova.kube import Client
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from tests.harness.campaigns import SEED
from tests.local.embedded_cluster import PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.dra_objects import (
    CLAIMS,
    SLICES,
    claim_spec,
    create_claim_template,
    pod_claim_from_template,
)
from tests.scheduler.harness.embedded_scheduler import are_all_placed, pod, scheduled_cluster

pytestmark = virtual_time

NS = "default"
H200 = GpuSpec("NVIDIA-H200", 2, "141Gi", dra="mig")
FLEET = Fleet((NodeGroup("node", 2, cpu="64", memory="512Gi", gpu=H200),))


def by_claim(name: str, template: str) -> dict[str, Any]:
    return pod(name, 0, **pod_claim_from_template(template))


def share(name: str, milli: str, memory: str = "") -> dict[str, Any]:
    body = pod(name, 0)
    annotations = {"gpu.kilonova.dev/milli": milli}
    body["metadata"]["annotations"] = annotations | (
        {"gpu.kilonova.dev/memory": memory} if memory else {}
    )
    return body


def instance(name: str, profile: str) -> dict[str, Any]:
    body = pod(name, 0)
    amounts = {f"nvidia.com/mig-{profile}": "1"}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return body


KINDS = (
    lambda name: by_claim(name, "whole"),
    lambda name: by_claim(name, "part"),
    lambda name: pod(name, 1),
    lambda name: share(name, "400"),
    lambda name: share(name, "100", "90000"),
    lambda name: instance(name, "3g.71gb"),
    lambda name: instance(name, "1g.18gb"),
)


async def prepare(client: Client) -> None:
    async def are_published() -> bool:
        return len((await client.list(SLICES)).items) == 4

    await wait_for_condition(are_published)
    await create_claim_template(client, NS, "whole", claim_spec(class_="gpu.nvidia.com"))
    half = 'device.attributes["gpu.nvidia.com"].profile == "3g.71gb"'
    await create_claim_template(client, NS, "part", claim_spec(1, half, "mig.nvidia.com"))


async def test_node_never_refuses_what_the_scheduler_gave() -> None:
    random = Random(SEED)
    async with scheduled_cluster(FLEET) as (cluster, _):
        client = cluster.client("tester")
        await prepare(client)
        names: list[str] = []
        for number in range(24):
            names.append(f"p{number}")
            await client.create(PODS, random.choice(KINDS)(names[-1]), NS)
            if number % 3 == 2:
                await advance_time(random.uniform(0.0, 4.0))
            if number % 4 == 3:
                gone = names.pop(random.randrange(len(names)))
                await client.delete(PODS, gone, NS, grace_period_seconds=0)
        await advance_time(30.0)
        pods = (await client.list(PODS, NS)).items
        phases = [each["status"]["phase"] for each in pods]
        assert set(phases) <= {"Running", "Pending"}
        assert phases.count("Running") >= 4
        assert any(each["metadata"].get("annotations", {}).get(DEVICES) for each in pods)
        assert any(
            each.get("status", {}).get("allocation")
            for each in (await client.list(CLAIMS, NS)).items
        )


async def test_gpu_of_a_claim_is_free_for_pods_when_its_pod_ends() -> None:
    async with scheduled_cluster(FLEET) as (cluster, _):
        client = cluster.client("tester")
        await prepare(client)
        users = [f"user-{number}" for number in range(4)]
        for name in users:
            await client.create(PODS, by_claim(name, "whole"), NS)
        await wait_for_condition(are_all_placed(client, users))
        await client.create(PODS, pod("waiting", 1), NS)

        async def is_explained() -> bool:
            status = (await client.get(PODS, "waiting", NS)).get("status", {})
            return any(
                "Insufficient nvidia.com/gpu (4 GPU(s) allocated to ResourceClaims)"
                in each.get("message", "")
                for each in status.get("conditions", ())
            )

        await wait_for_condition(is_explained)
        await client.delete(PODS, users[1], NS, grace_period_seconds=0)
        await wait_for_condition(are_all_placed(client, ["waiting"]))
