"""`deploy/operator` on both servers: its account may do what the controllers of GPU objects do."""

from pathlib import Path

import pytest

from kilonova.kube import Invalid
from tests.conftest import Api
from tests.gpu.controllers.manifests import workload
from tests.gpu.controllers.workload_cluster import (
    GANGS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    STRATEGIES,
    WORKLOADS,
    condition_of,
)
from tests.local.embedded_cluster import find, wait_for_condition
from tests.workloads.process.operator_process import operator_process, write_token_kubeconfig
from tests.workloads.process.test_deployed_operator import build_account, deployed

__all__ = ["deployed"]

TOPOLOGY = '{"product":"H100","mig":"H100-80GB","port":900,"gpus":[{},{},{},{},{},{},{},{}]}'


async def test_service_account_has_all_permissions_of_the_controllers(
    deployed: Api, tmp_path: Path
) -> None:
    namespace = deployed.namespace
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", build_account(deployed).request_token()
    )
    changes = {"metadata.namespace": namespace, "spec.priority": 321}
    pool = {"example.com/pool": namespace}
    node = {
        "metadata": {
            "name": f"{namespace}-gpu",
            "labels": pool,
            "annotations": {"gpu.kilonova.dev/topology": TOPOLOGY},
        }
    }
    strategy = {
        "metadata": {"name": f"of-{namespace}"},
        "spec": {"nodeSelector": pool, "profileDistribution": {"1g.10gb": 0.5}},
    }
    url = ("--webhook-url", "https://127.0.0.1:0")
    async with deployed.client() as client:
        await client.create(NODES, node)
        with operator_process(kubeconfig, tmp_path, *url) as operator:
            await client.create(WORKLOADS, workload(gpus=16, changes=changes), namespace)
            await client.create(STRATEGIES, strategy)

            async def complete() -> bool:
                pods = (await client.list(PODS, namespace)).items
                gang = await find(client, GANGS, "gw-job", namespace)
                found = (await find(client, WORKLOADS, "job", namespace)).get("status", {})
                applied = (await find(client, STRATEGIES, f"of-{namespace}")).get("status", {})
                return (
                    len(pods) == 2
                    and not any(each["spec"].get("schedulingGates") for each in pods)
                    and gang is not None
                    and gang.get("status", {}).get("phase") == "Pending"
                    and found.get("phase") == "Scheduling"
                    and condition_of(applied, "Ready").get("status") == "True"
                )

            await wait_for_condition(complete, within=40)
            assert await find(client, SERVICES, "gw-job", namespace)
            assert await find(client, PRIORITY_CLASSES, "kgwe-priority-321")
            mig = {"spec.gpuRequirements.mig": {"profile": "9g.999gb"}}
            body = workload("other", gpus=1, changes={**changes, **mig})
            with pytest.raises(Invalid, match="no GPU of the catalog has this MIG profile"):
                await client.create(WORKLOADS, body, namespace)
            await client.evict("job-0", namespace)

            async def replaced() -> bool:
                names = [
                    each["metadata"]["name"] for each in (await client.list(PODS, namespace)).items
                ]
                return sorted(names) == ["job-0-r1", "job-1-r1"]

            await wait_for_condition(replaced, within=40)
            await client.delete(WORKLOADS, "job", namespace)
            await client.delete(STRATEGIES, f"of-{namespace}")
            log = operator.process.log.read_text()
            assert "forbidden" not in log.lower()
        await client.delete(NODES, f"{namespace}-gpu")
