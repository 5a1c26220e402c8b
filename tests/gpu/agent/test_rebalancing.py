"""A MIGStrategy that allows evictions: strategy, scheduler and agents together."""

from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.simnodes.fleet.model import GpuSpec
from kilonova.scheduler.settings import SchedulerSettings
from tests.gpu.agent.agent_cluster import (
    gpu_fleet,
    list_instances,
    run_gpu_cluster,
    wait_for_phase,
)
from tests.local.embedded_cluster import (
    EVENTS,
    PODS,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.consolidation import (
    REPLICA_SETS,
    consolidating_scheduler,
    replica_set,
)

pytestmark = virtual_time

STRATEGIES = unstructured_resource("kgwe.nvidia.io", "v1", "migstrategies", "MIGStrategy", False)
TWO_H100 = GpuSpec("NVIDIA-H100-80GB-HBM3", 2, "80Gi")
STRATEGY: Any = {
    "metadata": {"name": "inference"},
    "spec": {
        "profileDistribution": {"1g.10gb": 0.1},
        "allowDynamicReconfig": True,
        "allowPodEviction": True,
    },
}


async def run_instance(client: Client, name: str, profile: str) -> None:
    """A ReplicaSet whose pod runs on an instance."""
    body = replica_set(name, 0)
    resources = {f"nvidia.com/mig-{profile}": "1"}
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": resources, "limits": resources}
    await client.create(REPLICA_SETS, body, "default")
    await wait_for_running(client, name)


async def list_phases(client: Client, name: str) -> list[str]:
    found = await client.list(PODS, "default", label_selector=f"app={name}")
    return [each["status"].get("phase", "") for each in found.items]


async def wait_for_running(client: Client, name: str) -> None:
    async def runs() -> bool:
        return await list_phases(client, name) == ["Running"]

    await wait_for_condition(runs, within=300)


async def test_small_instance_leaves_a_gpu_that_a_pod_then_gets_whole() -> None:
    async with run_gpu_cluster(gpu_fleet(TWO_H100), components=("gpu",)) as (cluster, client):
        await install_crds(client, load_definitions())
        async with consolidating_scheduler(cluster, SchedulerSettings()):
            await run_instance(client, "large", "4g.40gb")
            await run_instance(client, "leaving", "3g.40gb")
            await run_instance(client, "small", "1g.10gb")
            before = await list_instances(client, "gpu-0")
            await client.delete(REPLICA_SETS, "leaving", "default")
            assert {name for held in before.values() for name, _ in held} >= {"1g.10gb", "4g.40gb"}
            await client.create(STRATEGIES, STRATEGY)

            whole: Any = {
                "metadata": {"name": "whole"},
                "spec": {
                    "schedulerName": "kilonova-scheduler",
                    "containers": [
                        {
                            "name": "main",
                            "image": "example",
                            "resources": {"limits": {"nvidia.com/mig-7g.80gb": "1"}},
                        }
                    ],
                },
            }
            await client.create(PODS, whole, "default")
            await wait_for_phase(client, "whole", "Running", within=1200)
            await wait_for_running(client, "small")
            await wait_for_running(client, "large")

            async def is_complete() -> bool:
                found = (await client.list(EVENTS)).items
                reasons = {
                    each["reason"]
                    for each in found
                    if each["involvedObject"]["kind"] == "MIGStrategy"
                }
                return reasons >= {"RebalanceStarted", "RebalanceComplete"}

            await wait_for_condition(is_complete)
            held = await list_instances(client, "gpu-0")
            assert sorted(sorted(name for name, _ in each) for each in held.values()) == [
                ["1g.10gb", "4g.40gb"],
                ["7g.80gb"],
            ]
