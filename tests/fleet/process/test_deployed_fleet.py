"""`deploy/fleet` and `deploy/member` on both servers: manager and agent under their accounts, with
the server as hub and as member, and a store in a directory."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Invalid, NotFound, unstructured_resource
from tests.conftest import Api
from tests.fleet.support.fleet_lab import CLUSTERS, DEPLOYMENTS, EVENTS, RELEASES
from tests.fleet.support.instance_controller import (
    DEPLOYMENTS as INSTANCE_DEPLOYMENTS,
)
from tests.fleet.support.instance_controller import (
    FakeInstanceController,
)
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import ServiceAccount
from tests.local.embedded_cluster import wait_for_condition
from tests.workloads.process.operator_process import (
    component_process,
    operator_process,
    write_token_kubeconfig,
)
from tests.workloads.process.test_deployed_operator import build_account, wait_until
from tests.workloads.process.test_deployed_operator import deployed as deployed_operator

__all__ = ["deployed_operator"]

ROOT = Path(__file__).parents[3]
NAMESPACE = "kilonova-system"
LEASES = unstructured_resource("coordination.k8s.io", "v1", "leases", "Lease", True)
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)

ENGINE = "inference-engine.groq.io"
CAN: dict[str, list[tuple[str, str, str, str]]] = {
    # verb, group, resource[/subresource], namespace
    "kilonova-fleet": [
        ("patch", ENGINE, "deployments", "team"),
        ("patch", ENGINE, "deployments/status", "team"),
        ("patch", ENGINE, "releases/status", "team"),
        ("patch", "fleet.kilonova.dev", "clusters/status", ""),
        ("create", "fleet.kilonova.dev", "clusters", ""),
        ("create", "", "namespaces", ""),
        ("create", "", "events", "team"),
    ],
    "kilonova-member": [
        ("patch", ENGINE, "inferenceenginedeployments", "team"),
        ("delete", ENGINE, "inferenceenginedeployments", "team"),
        ("watch", ENGINE, "inferenceengineinstances", "team"),
        ("list", "", "pods", ""),
        ("create", "", "namespaces", ""),
        ("create", "", "configmaps", NAMESPACE),
        ("create", "coordination.k8s.io", "leases", NAMESPACE),
    ],
}
CANNOT: list[tuple[str, str, str, str]] = [
    ("get", "", "secrets", NAMESPACE),
    ("list", "", "secrets", ""),
    ("create", "", "pods", "team"),
    ("delete", "", "pods", "team"),
    ("patch", "", "nodes", ""),
    ("create", "apps", "deployments", "team"),
    ("patch", ENGINE, "inferenceengineinstances", "team"),
    ("patch", ENGINE, "inferenceenginedeployments/status", "team"),
    ("delete", "", "namespaces", ""),
    ("create", "", "configmaps", "team"),
    ("create", "rbac.authorization.k8s.io", "clusterroles", ""),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("impersonate", "", "users", ""),
    ("*", "*", "*", ""),
]


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with the CRDs and both manifests applied."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)
            await delete_rollouts(client)

    asyncio.run(install())
    folders = [str(ROOT / "deploy" / name) for name in ("fleet", "member")]
    for each in folders:
        done = kubectl(["apply", "-k", each])
        assert done.code == 0, done.err
    for name, acts in CAN.items():
        account = ServiceAccount(api, NAMESPACE, name)
        wait_until(lambda account=account, acts=acts: all(account.is_allowed(*act) for act in acts))
    yield api
    for each in folders:
        done = kubectl(["delete", "-k", each, "--ignore-not-found"])
        assert done.code == 0, done.err


async def delete_rollouts(client: Client) -> None:
    """What other tests have deployed: the manager would place it in this test's member."""
    for each in (await client.list(DEPLOYMENTS)).items:
        known = each["metadata"]
        name, namespace = known["name"], known["namespace"]
        with suppress(NotFound):
            await client.patch(DEPLOYMENTS, name, {"metadata": {"finalizers": None}}, namespace)
            await client.delete(DEPLOYMENTS, name, namespace)


@asynccontextmanager
async def running_fleet(api: Api, folder: Path) -> AsyncGenerator[tuple[Client, str]]:
    """The processes, until the end of the context; a client, and the member's name."""
    store, name = folder / "store", f"of-{api.namespace}"
    endpoint = ("--global-leader-elect-endpoint", str(store))
    kubeconfigs = {
        each: write_token_kubeconfig(
            api.access, folder / each, ServiceAccount(api, NAMESPACE, each).request_token()
        )
        for each in CAN
    }
    member = ("--cluster-name", name, "--region", "here")
    with (
        component_process(
            "fleet", kubeconfigs["kilonova-fleet"], folder, *endpoint, "--register-members"
        ) as manager,
        component_process(
            "member", kubeconfigs["kilonova-member"], folder, *endpoint, *member
        ) as agent,
    ):
        async with api.client() as client:
            controller = FakeInstanceController(client, 4, 0.3, api.namespace)
            instances = asyncio.create_task(controller.run())
            try:
                yield client, name
            finally:
                instances.cancel()
                await asyncio.wait({instances})
        for process in (manager, agent):
            assert "forbidden" not in process.process.log.read_text().lower()


async def steer_by_commands(api: Api, client: Client, cluster: str) -> None:
    """What `kilonova fleet` prints and changes."""

    async def run(*words: str) -> str:
        flags = ("--kubeconfig", str(api.access.kubeconfig))
        command = [sys.executable, "-P", "-m", "kilonova.cli", "fleet", *words, *flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output, _ = await process.communicate()
        return output.decode().strip()

    async def get_spec() -> Any:
        return (await client.get(CLUSTERS, cluster))["spec"]

    listed = await run("clusters")
    assert listed.split()[:4] == ["NAME", "REGION", "HEALTH", "STATE"]
    assert cluster in listed
    assert await run("cordon", cluster) == f"cluster {cluster} cordoned"
    assert (await get_spec())["cordoned"]
    assert await run("uncordon", cluster) == f"cluster {cluster} uncordoned"
    assert not (await get_spec())["cordoned"]
    assert "cluster nowhere does not exist" in await run("cordon", "nowhere")
    status = await run("status", "chat", "-n", api.namespace)
    assert status.startswith(f"{api.namespace}/chat: release v1, 2 of 2 instances ready")
    masked = await run("mask", "chat", "v2", "-n", api.namespace)
    assert masked == "chat: masked v2"
    assert (await client.get(DEPLOYMENTS, "chat", api.namespace))["spec"]["mask"] == ["v2"]
    assert await run("unmask", "chat", "v2", "-n", api.namespace) == "chat: unmasked v2"
    assert "no former release" in await run("rollback", "chat", "-n", api.namespace)


async def test_release_is_rolled_out_by_deployed_manager_and_agent(
    deployed: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    namespace = deployed.namespace
    async with running_fleet(deployed, tmp_path) as (client, name):
        spec = {"model": "m", "targetAgents": 1}
        for each in ("v1", "v2"):
            await client.create(RELEASES, {"metadata": {"name": each}, "spec": spec}, namespace)
        await client.create(
            DEPLOYMENTS,
            {"metadata": {"name": "chat"}, "spec": {"release": "v1", "replicas": 2}},
            namespace,
        )

        async def get_status() -> Any:
            return (await client.get(DEPLOYMENTS, "chat", namespace)).get("status", {})

        async def is_ready() -> bool:
            return (await get_status()).get("ready") == 2

        await wait_for_condition(is_ready, within=90)
        cluster = await client.get(CLUSTERS, name)
        assert cluster["spec"]["region"] == "here"
        assert cluster["status"]["health"] == "Healthy"
        found = await client.get(INSTANCE_DEPLOYMENTS, "chat", namespace)
        assert found["spec"]["template"]["model"] == "m"
        assert await client.get(LEASES, "kilonova-member", NAMESPACE)
        assert await client.get(CONFIG_MAPS, "kilonova-fleet-member", NAMESPACE)

        printed = kubectl(["get", "gd", "-n", namespace]).out.split("\n")
        assert printed[0].split() == [
            "NAME",
            "RELEASE",
            "DESIRED",
            "OBSERVED",
            "READY",
            "WAVE",
            "AGE",
        ]
        assert printed[1].split()[:5] == ["chat", "v1", "2", "2", "2"]
        printed = kubectl(["get", "deployments.inference-engine.groq.io", "-n", namespace])
        assert printed.out.split("\n")[0].startswith("NAME")
        # Without a group, the name still means Deployments of apps.
        assert "No resources found" in kubectl(["get", "deployments", "-n", namespace]).err

        await steer_by_commands(deployed, client, name)
        await client.patch(DEPLOYMENTS, "chat", {"spec": {"release": "v2"}}, namespace)

        async def is_updated() -> bool:
            (cell,) = (await get_status())["clusters"]
            return cell.get("observedRelease") == "v2"

        await wait_for_condition(is_updated, within=60)
        reasons = {each["reason"] for each in (await client.list(EVENTS, namespace)).items}
        assert "RolloutStarted" in reasons
        await client.delete(DEPLOYMENTS, "chat", namespace)

        async def is_gone() -> bool:
            return not (await client.list(INSTANCE_DEPLOYMENTS, namespace)).items and not (
                (await client.list(DEPLOYMENTS, namespace)).items
            )

        await wait_for_condition(is_gone, within=60)
        for each in ("v1", "v2"):
            await client.delete(RELEASES, each, namespace)
        await client.delete(CLUSTERS, name)

        async def is_left() -> bool:
            clusters = (await client.list(CLUSTERS)).items
            releases = (await client.list(RELEASES, namespace)).items
            return not releases and name not in {each["metadata"]["name"] for each in clusters}

        await wait_for_condition(is_left, within=60)


def test_service_accounts_have_no_other_permissions(deployed: Api) -> None:
    for name, acts in CAN.items():
        account = ServiceAccount(deployed, NAMESPACE, name)
        table = {**dict.fromkeys(acts, True), **dict.fromkeys(CANNOT, False)}
        assert {act: account.is_allowed(*act) for act in table} == table, name


async def test_operator_of_the_hub_rejects_invalid_deployments(
    deployed_operator: Api, tmp_path: Path
) -> None:
    api = deployed_operator
    kubeconfig = write_token_kubeconfig(
        api.access, tmp_path / "account", build_account(api).request_token()
    )
    spec = {"release": "v1", "replicas": 1, "placements": [{"cluster": "a", "min": 2}]}
    body = {"metadata": {"name": "chat"}, "spec": spec}
    with operator_process(kubeconfig, tmp_path, "--webhook-url", "https://127.0.0.1:0"):
        async with api.client() as client:
            with pytest.raises(Invalid, match="must not be less than the sum of the minima"):
                await client.create(DEPLOYMENTS, body, api.namespace)
