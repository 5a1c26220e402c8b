"""The operator in the cluster of `kilonova up`."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import ApiStatusError, NotFound, connect
from tests.cli.command import Kilonova
from tests.local.embedded_cluster import PODS, wait_deleted, wait_for_condition
from tests.workloads.workload_cluster import CLIQUES, SETS


def set_body(min_available: int = 2) -> Any:
    pod = {"containers": [{"name": "main", "image": "img"}]}
    spec = {"roleName": "w", "replicas": 2, "minAvailable": min_available, "podSpec": pod}
    return {
        "metadata": {"name": "sys"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "w", "spec": spec}]}},
    }


async def test_podcliqueset_runs_as_soon_as_the_cluster_is_ready(
    kilonova: Kilonova, tmp_path: Path
):
    data = tmp_path / "data"
    assert kilonova.detach(data).code == 0
    async with connect(data / "kubeconfig") as client:
        with pytest.raises(ApiStatusError, match="minAvailable"):
            await client.create(SETS, set_body(min_available=3), "default")
        made = await client.create(SETS, set_body(), "default")
        assert made["spec"]["template"]["terminationDelay"] == "4h"

        async def available() -> bool:
            found = await client.get(SETS, "sys", "default")
            return found.get("status", {}).get("availableReplicas") == 1

        await wait_for_condition(available, within=30)
    # After a restart the operator continues with existing objects.
    assert kilonova("down", "--data", data).code == 0
    assert kilonova.detach(data).code == 0
    async with connect(data / "kubeconfig") as client:
        await client.delete(SETS, "sys", "default")
        await wait_deleted(client, SETS, "sys")

        async def no_pods() -> bool:
            return not (await client.list(PODS, "default")).items

        await wait_for_condition(no_pods, within=30)


async def test_operator_can_be_disabled(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    assert kilonova.detach(data, "--no-demo", "--no-operator").code == 0
    async with connect(data / "kubeconfig") as client:
        with pytest.raises(NotFound):
            await client.list(CLIQUES)
