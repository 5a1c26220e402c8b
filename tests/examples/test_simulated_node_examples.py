"""The examples of simulated nodes that come and go."""

from pathlib import Path

import yaml

from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    NODES,
    PODS,
    find,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time
EXAMPLES = Path(__file__).parents[2] / "examples" / "simulated-nodes"


async def test_the_pod_waits_for_the_spot_node_and_a_second_one_lacks_capacity() -> None:
    spot, waiting = yaml.safe_load_all((EXAMPLES / "spot-node.yaml").read_text())
    async with run_cluster(scheduler=True) as cluster:
        client = cluster.client("test")
        rules = yaml.safe_load((EXAMPLES / "capacity.yaml").read_text())
        await client.create(CONFIG_MAPS, rules, "kube-system")
        await client.create(PODS, waiting, "default")
        await client.create(NODES, spot)

        async def runs() -> bool:
            return (await find(client, PODS, "on-spot"))["status"].get("phase") == "Running"

        await wait_for_condition(runs)
        second = {**spot, "metadata": {**spot["metadata"], "name": "spot-1"}}
        await client.create(NODES, second)

        async def fails() -> bool:
            found = await find(client, NODES, "spot-1")
            reasons = [each["reason"] for each in found["status"].get("conditions", ())]
            return reasons == ["InsufficientCapacity"]

        await wait_for_condition(fails)
        notice = {"metadata": {"annotations": {"sim.kilonova.dev/interruption": "true"}}}
        await client.patch(NODES, "spot-0", notice)
        await wait_deleted(client, NODES, "spot-0", None)
