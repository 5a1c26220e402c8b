"""The example of an instance, on a simulated cluster; `engine.yaml` runs on a process node
elsewhere."""

from pathlib import Path
from typing import Any

import yaml

from kilonova.kube import Resource
from tests.instances.instance_cluster import (
    INSTANCES,
    NODES,
    PODS,
    InstanceCluster,
    accelerator_nodes,
    instance_cluster,
)
from tests.local.embedded_cluster import NAMESPACES, virtual_time, wait_for_condition

pytestmark = virtual_time

EXAMPLE = Path(__file__).parents[2] / "examples" / "instances" / "instance.yaml"
NAMESPACE = "inference-engine"
KINDS: dict[str, Resource[Any]] = {
    "Namespace": NAMESPACES,
    "InferenceEngineInstance": INSTANCES,
}


async def get_instance(cluster: InstanceCluster) -> Any:
    return await cluster.client.get(INSTANCES, "llama32-90b", NAMESPACE)


async def test_example_runs_and_leaves_a_cordoned_node() -> None:
    async with instance_cluster(accelerator_nodes(3, racks=1)) as cluster:
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            namespace = body["metadata"].get("namespace")
            await cluster.client.create(KINDS[body["kind"]], body, namespace)

        async def is_ready_off(node: str = "") -> bool:
            status = (await get_instance(cluster)).get("status", {})
            return status.get("phase") == "Ready" and node not in {
                each["node"] for each in status["allocation"]
            }

        await wait_for_condition(is_ready_off)
        status = (await get_instance(cluster))["status"]
        assert (status["readyAgents"], status["conductorReady"]) == (4, True)
        pods = (await cluster.client.list(PODS, NAMESPACE)).items
        environment = {
            each["name"]: each["value"] for each in pods[0]["spec"]["containers"][0]["env"]
        }
        assert environment["MAX_BATCH"] == "16"
        assert environment["ENGINE_MODEL"] == "llama32-90b"

        node = status["allocation"][0]["node"]
        await cluster.client.patch(NODES, node, {"spec": {"unschedulable": True}})
        await wait_for_condition(lambda: is_ready_off(node))
        assert (await get_instance(cluster))["status"]["repairs"]["recreated"] > 0
