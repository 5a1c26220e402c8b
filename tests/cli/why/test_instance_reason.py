"""InferenceEngineInstances without pods: `kilonova why` says what their status says."""

import asyncio
from pathlib import Path
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.instances.instance_cluster import INSTANCES, instance
from tests.local.embedded_cluster import wait_for_condition


def test_why_says_what_keeps_an_instance_from_having_pods(
    cluster_command: Kilonova, cluster: Path
) -> None:
    async def create() -> None:
        async with connect(cluster / "kubeconfig") as client:
            await install_definitions(client)
            body: Any = instance("homeless", build="none", targetAgents=None)
            await client.create(INSTANCES, body, "default")

            async def is_rejected() -> bool:
                found = await client.get(INSTANCES, "homeless", "default")
                return bool(found.get("status", {}).get("conditions"))

            await wait_for_condition(is_rejected)

    asyncio.run(create())
    done = cluster_command("why", "iei/homeless", "--data", cluster)
    assert done.code == 1
    assert "InferenceEngineInstance default/homeless is Pending, without pods: Build" in done.err
    assert "spec.build: " in done.err
    missing = cluster_command("why", "iei/nothing", "--data", cluster)
    assert "no pod or gang of inferenceengineinstance 'nothing'" in missing.err
