"""`deploy/operator` on both servers: its account has exactly the permissions of the controllers of
inference engines. The test binds pods and reserves capacity, where a scheduler would."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.instances.instance_cluster import (
    GANGS,
    INSTANCES,
    NODES,
    PODS,
    RESERVATIONS,
    SERVICES,
    instance,
)
from tests.local.embedded_cluster import wait_for_condition
from tests.workloads.process.operator_process import (
    delete_webhook_configurations,
    operator_process,
    write_token_kubeconfig,
)
from tests.workloads.process.test_deployed_operator import (
    MANIFESTS,
    build_account,
    wait_until_allowed,
)

AGENT_0, AGENT_1 = "llama-agent-0", "llama-agent-1"


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with the CRDs and the applied manifests."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)

    asyncio.run(install())
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    wait_until_allowed(api, CAN)
    yield api
    delete_webhook_configurations(api.access)
    done = kubectl(["delete", "-k", str(MANIFESTS), "--ignore-not-found"])
    assert done.code == 0, done.err


class BoundInstance:
    """An instance of two agents whose pods are bound by the test."""

    def __init__(self, client: Client, namespace: str, node: str) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node

    async def list_names(self, resource: Any) -> set[str]:
        found = await self._client.list(resource, self._namespace)
        return {
            each["metadata"]["name"]
            for each in found.items
            if "deletionTimestamp" not in each["metadata"]
        }

    async def wait_for_pods(self, *names: str) -> None:
        """Wait until these pods exist without a gate, and no others."""

        async def complete() -> bool:
            pods = (await self._client.list(PODS, self._namespace)).items
            alive = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
            return {each["metadata"]["name"] for each in alive} == set(names) and not any(
                each["spec"].get("schedulingGates") for each in alive
            )

        await wait_for_condition(complete)

    async def bind(self, *names: str) -> None:
        for name in names:
            await self._client.bind(name, self._namespace, self._node)

    async def wait_for_names(self, resource: Any, *names: str) -> None:
        async def found() -> bool:
            return set(names) == await self.list_names(resource)

        await wait_for_condition(found)

    async def get_status(self) -> Any:
        return (await self._client.get(INSTANCES, "llama", self._namespace)).get("status", {})


@asynccontextmanager
async def bound_instance(api: Api) -> AsyncGenerator[tuple[Client, BoundInstance]]:
    node = f"{api.namespace}-node"
    async with api.client() as client:
        await client.create(NODES, {"metadata": {"name": node}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"status": {"conditions": [ready]}}
        await client.patch(NODES, node, status, subresource="status")
        try:
            yield client, BoundInstance(client, api.namespace, node)
        finally:
            await client.delete(NODES, node)


async def test_service_account_has_all_permissions_of_the_controllers(
    deployed: Api, tmp_path: Path
) -> None:
    namespace = deployed.namespace
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", build_account(deployed).request_token()
    )
    url = ("--webhook-url", "https://127.0.0.1:0")
    with operator_process(kubeconfig, tmp_path, *url) as operator:
        async with bound_instance(deployed) as (client, bound):
            template = {"spec": {"containers": [{"name": "main"}]}}
            spec: Any = {"accelerator": {"count": 1}, "repair": {"deadline": "1s"}}
            body = instance(agents=2, agent=template, conductor=template, **spec)
            await client.create(INSTANCES, body, namespace)
            await bound.wait_for_pods(AGENT_0, AGENT_1, "llama-conductor")
            assert {"iei-llama"} <= await bound.list_names(SERVICES)
            await bound.bind(AGENT_0, AGENT_1, "llama-conductor")

            async def allocated() -> bool:
                gang = await client.get(GANGS, "iei-llama", namespace)
                return bool(gang.get("status", {}).get("lastScheduled"))

            await wait_for_condition(allocated)
            # The replacement gets no node, so capacity is reserved; then the instance is relocated.
            await client.delete(PODS, AGENT_1, namespace, grace_period_seconds=0)
            await bound.wait_for_names(RESERVATIONS, "iei1-llama")
            status = {"status": {"phase": "Reserved"}}
            await client.patch(RESERVATIONS, "iei1-llama", status, namespace, subresource="status")
            await bound.wait_for_names(GANGS, "iei1-llama")

            async def relocated() -> set[str]:
                pods = (await client.list(PODS, namespace)).items
                return {
                    each["metadata"]["name"]
                    for each in pods
                    if each["metadata"]["labels"]["supernova.groq.io/allocation"] == "1"
                    and not each["spec"].get("schedulingGates")
                }

            async def complete() -> bool:
                return len(await relocated()) == 3

            await wait_for_condition(complete)
            await bound.bind(*await relocated())
            await bound.wait_for_names(RESERVATIONS)

            async def counted() -> bool:
                return (await bound.get_status()).get("repairs", {}).get("relocated") == 1

            await wait_for_condition(counted)
            await client.delete(INSTANCES, "llama", namespace)
        log = operator.process.log.read_text()
        assert "forbidden" not in log.lower()


GROUP = "inference-engine.groq.io"
CAN: list[tuple[str, str, str, str]] = [
    # verb, group, resource[/subresource], namespace
    ("watch", GROUP, "inferenceengineinstances", "team"),
    ("create", GROUP, "inferenceengineinstances", "team"),
    ("delete", GROUP, "inferenceengineinstances", "team"),
    ("patch", GROUP, "inferenceengineinstances/status", "team"),
    ("watch", GROUP, "inferenceenginedeployments", "team"),
    ("patch", GROUP, "inferenceenginedeployments/status", "team"),
    ("watch", GROUP, "releases", "team"),
    ("create", "scheduling.kilonova.dev", "reservations", "team"),
    ("delete", "scheduling.kilonova.dev", "reservations", "team"),
    ("watch", "", "nodes", ""),
]
CANNOT: list[tuple[str, str, str, str]] = [
    ("patch", GROUP, "inferenceengineinstances", "team"),
    ("create", GROUP, "inferenceenginedeployments", "team"),
    ("patch", GROUP, "inferenceenginedeployments", "team"),
    ("delete", GROUP, "inferenceenginedeployments", "team"),
    ("create", GROUP, "releases", "team"),
    ("patch", GROUP, "releases/status", "team"),
    ("create", GROUP, "deployments", "team"),
    ("list", GROUP, "deployments", "team"),
    ("patch", "scheduling.kilonova.dev", "reservations", "team"),
    ("patch", "scheduling.kilonova.dev", "reservations/status", "team"),
    ("delete", "", "nodes", ""),
    ("watch", "fleet.kilonova.dev", "clusters", ""),
]


def test_service_account_has_no_other_permissions(deployed: Api) -> None:
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {act: build_account(deployed).is_allowed(*act) for act in table} == table
