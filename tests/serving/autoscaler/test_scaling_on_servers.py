"""The autoscaler on the embedded and on the real API server: through `/scale`, and no further."""

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, NotFound
from kilonova.serving.autoscaler.controller import build_autoscaler
from kilonova.serving.controllers.service.controller import build_service_controller
from kilonova.serving.signals import GroupSignals
from tests.conftest import Api
from tests.local.embedded_cluster import LoopClock, wait_for_condition
from tests.serving.autoscaler.scaled_cluster import ScriptedLoad
from tests.serving.serving_cluster import (
    INFERENCE_SERVICES,
    PODS,
    SETS,
    build_context,
    inference_service,
    server_group,
)
from tests.workloads.workload_cluster import run_runnables

BETWEEN_0_AND_5 = {
    "minReplicas": 0,
    "maxReplicas": 5,
    "scaleDown": {"stabilization": "0s"},
    "scaleToZero": {"idleAfter": "1s"},
}


async def test_servers_follow_the_load_to_zero_and_back(api: Api) -> None:
    namespace = api.namespace
    load = ScriptedLoad(key=(namespace, "web"))
    async with api.client() as client:
        await install_definitions(client)
        context = build_context(client, LoopClock())
        leaders = (
            build_service_controller(context),
            *build_autoscaler(context, load, load, CollectorRegistry()),
        )

        async def get_set() -> Any:
            return await client.get(SETS, "web-model", namespace)

        async def wait_for_replicas(number: int) -> None:
            async def has_them() -> bool:
                try:
                    return (await get_set())["spec"]["replicas"] == number
                except NotFound:
                    return False

            await wait_for_condition(has_them)

        async with run_runnables((*context.caches.runnables, context.recorder), leaders):
            reporting = asyncio.create_task(load.report())
            body = inference_service("web", server_group(autoscaling=BETWEEN_0_AND_5))
            await client.create(INFERENCE_SERVICES, body, namespace)
            load.figures = GroupSignals(in_flight=19)
            await wait_for_replicas(3)
            # An update of the service leaves the number alone.
            changed = [server_group(autoscaling=BETWEEN_0_AND_5, args=["--verbose"])]
            await client.patch(INFERENCE_SERVICES, "web", {"spec": {"servers": changed}}, namespace)

            async def is_updated() -> bool:
                found = await get_set()
                assert found["spec"]["replicas"] == 3
                return "--verbose" in str(found["spec"]["template"])

            await wait_for_condition(is_updated)
            # Only a group that had a ready server can be idle.
            await _add_ready_server(client, await get_set())
            load.figures = GroupSignals(in_flight=0)
            await wait_for_replicas(0)
            await client.delete(PODS, "web-model-0", namespace)
            load.held = 1
            load.tell()
            await wait_for_replicas(1)

            async def is_told() -> bool:
                found = await client.get(INFERENCE_SERVICES, "web", namespace)
                (scaling,) = found["status"]["scaling"]
                return scaling["desired"] == 1 and "1 held" in scaling["message"]

            await wait_for_condition(is_told)
            reporting.cancel()
            await client.delete(INFERENCE_SERVICES, "web", namespace)

            async def is_gone() -> bool:
                try:
                    await get_set()
                except NotFound:
                    return True
                return False

            await wait_for_condition(is_gone)


async def _add_ready_server(client: Client, servers: Any) -> None:
    """A pod as the operator and a node would make it."""
    metadata, (clique,) = servers["metadata"], servers["spec"]["template"]["cliques"]
    body = {
        "metadata": {"name": "web-model-0", "labels": clique["labels"]},
        "spec": {"containers": [{"name": "server", "image": "server"}]},
    }
    await client.create(PODS, body, metadata["namespace"])
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(PODS, "web-model-0", ready, metadata["namespace"], subresource="status")
