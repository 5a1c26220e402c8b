"""Services on both API servers, in real time. No pod runs: kubelet and operator are not there."""

import asyncio
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import LoopClock, wait_for_condition
from tests.serving.serving_cluster import (
    BUDGETS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    INGRESSES,
    SECRETS,
    SERVICES,
    SETS,
    build_controllers,
    inference_service,
    server_group,
)
from tests.workloads.workload_cluster import run_runnables

KINDS = (SETS, DEPLOYMENTS, SERVICES, SECRETS, BUDGETS, INGRESSES)


def build_service() -> Any:
    """A service with many fields that a server defaults or rewrites."""
    probe = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 7}
    template = {
        "metadata": {"annotations": {"team": "a"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "readinessProbe": probe,
                    "resources": {"limits": {"memory": "1024Mi", "cpu": "0.5"}},
                },
                {"name": "sidecar", "image": "sidecar:1"},
            ],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    }
    return inference_service(
        "web",
        server_group(template=template, env=[{"name": "A", "value": ""}]),
        server_group("other", autoscaling={"minReplicas": 0, "maxReplicas": 4}, replicas=2),
        gateway={
            "replicas": 2,
            "grpcPort": 443,
            "resources": {"limits": {"cpu": "1500m"}},
            "ingress": {"host": "web.example.com", "annotations": {"a": "b"}},
            "service": {"type": "NodePort"},
        },
    )


async def list_versions(client: Client, namespace: str) -> dict[str, str]:
    return {
        f"{kind.plural}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for kind in (*KINDS, INFERENCE_SERVICES)
        for each in (await client.list(kind, namespace)).items
        # Controllers of a real cluster write statuses of these, and tokens.
        if each["metadata"].get("labels", {}).get("serving.kilonova.dev/inference-service")
        or kind is INFERENCE_SERVICES
    }


async def test_servers_store_objects_as_they_are_wanted(api: Api, kubectl: Kubectl) -> None:
    namespace = api.namespace
    async with api.client() as client:
        await install_definitions(client)
        built = build_controllers(client, LoopClock())
        async with run_runnables(built.runnables, built.leader_runnables):
            await client.create(INFERENCE_SERVICES, build_service(), namespace)
            expected = {
                "podcliquesets/web-model",
                "podcliquesets/web-other",
                "deployments/web-gateway",
                "services/web",
                "services/web-model-servers",
                "services/web-other-servers",
                "secrets/web-gateway",
                "poddisruptionbudgets/web-gateway",
                "ingresses/web",
                "inferenceservices/web",
            }

            async def complete() -> bool:
                found = await client.get(INFERENCE_SERVICES, "web", namespace)
                names = set(await list_versions(client, namespace))
                return names == expected and found.get("status", {}).get("phase") == "Pending"

            await wait_for_condition(complete)
            await wait_until_settled(client, namespace)
            versions = await list_versions(client, namespace)
        # Another process finds nothing to write.
        again = build_controllers(client, LoopClock())
        async with run_runnables(again.runnables, again.leader_runnables):
            patch = {"metadata": {"annotations": {"seen": "yes"}}}
            await client.patch(INFERENCE_SERVICES, "web", patch, namespace)
            await wait_until_settled(client, namespace)
            after = await list_versions(client, namespace)
            assert after.pop("inferenceservices/web") != versions.pop("inferenceservices/web")
            assert after == versions
            printed = await asyncio.to_thread(kubectl, ["get", "isvc", "-n", namespace])
            assert printed.out.split("\n")[0].split()[:4] == ["NAME", "PHASE", "READY", "REPLICAS"]

            # The autoscaler's number survives an update of everything else.
            await client.set_scale(SETS, "web-other", namespace, 3)
            spec = build_service()["spec"]
            spec["servers"][1]["args"] = ["--verbose"]
            await client.patch(INFERENCE_SERVICES, "web", {"spec": spec}, namespace)

            async def updated() -> bool:
                found = await client.get(SETS, "web-other", namespace)
                return "--verbose" in str(found["spec"]["template"])

            await wait_for_condition(updated)
            found = await client.get(SETS, "web-other", namespace)
            assert found["spec"]["replicas"] == 3
            await client.delete(INFERENCE_SERVICES, "web", namespace)


async def wait_until_settled(client: Client, namespace: str) -> None:
    """Wait until two looks, a second apart, find the same versions."""
    seen: list[dict[str, str]] = []

    async def same() -> bool:
        seen.append(await list_versions(client, namespace))
        return len(seen) > 1 and seen[-1] == seen[-2]

    await wait_for_condition(same, every=1.0)
