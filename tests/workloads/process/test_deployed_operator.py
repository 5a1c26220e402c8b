"""`deploy/operator` on both servers: its account has exactly the operator's permissions."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.local.embedded_cluster import LEASES, SECRETS, wait_for_condition
from tests.workloads.process.operator_process import (
    delete_webhook_configurations,
    operator_process,
    write_token_kubeconfig,
)
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CLIQUES,
    CONTROLLER_REVISIONS,
    GANGS,
    PODS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
)

MANIFESTS = Path(__file__).parents[3] / "deploy" / "operator"
NAMESPACE = "kilonova-system"
ACCOUNT = "kilonova-operator"


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


def wait_until_allowed(api: Api, acts: list[tuple[str, str, str, str]]) -> None:
    """Wait until a server has noticed new permissions."""
    wait_until(lambda: all(build_account(api).is_allowed(*act) for act in acts))


def build_account(api: Api) -> ServiceAccount:
    """The one of the manifests."""
    return ServiceAccount(api, NAMESPACE, ACCOUNT)


def build_full_set(name: str) -> Any:
    """A set of which every kind of object is made."""
    container = {"name": "main", "image": "img"}

    def clique(role: str, **more: Any) -> Any:
        spec = {"roleName": role, "replicas": 1, "podSpec": {"containers": [container]}, **more}
        return {"name": role, "spec": spec}

    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    devices = {"spec": {"devices": {"requests": [request]}}}
    template = {
        "cliqueStartupType": "CliqueStartupTypeInOrder",
        "cliques": [
            clique("router", autoScalingConfig={"maxReplicas": 3}),
            clique("leader"),
            clique("worker", replicas=2),
        ],
        "podCliqueScalingGroups": [
            {"name": "model", "cliqueNames": ["leader", "worker"], "replicas": 2}
        ],
        "resourceClaimTemplates": [
            {"name": "common", "templateSpec": devices},
            {"name": "own", "templateSpec": devices},
        ],
        "resourceSharing": [
            {"name": "common", "scope": "AllReplicas"},
            {"name": "own", "scope": "PerReplica"},
        ],
    }
    return {"metadata": {"name": name}, "spec": {"replicas": 1, "template": template}}


async def test_service_account_has_all_permissions_of_the_operator(
    deployed: Api, tmp_path: Path
) -> None:
    namespace = deployed.namespace
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", build_account(deployed).request_token()
    )
    url = ("--webhook-url", "https://127.0.0.1:0")
    with operator_process(kubeconfig, tmp_path, *url, "--authorizer") as operator:
        async with deployed.client() as client:
            await client.create(SETS, build_full_set("sys"), namespace)

            async def complete() -> bool:
                wanted = {
                    PODS: 7,
                    CLIQUES: 5,
                    SCALING_GROUPS: 1,
                    GANGS: 2,
                    SERVICES: 1,
                    AUTOSCALERS: 1,
                }
                wanted |= {RESOURCE_CLAIMS: 2, CONTROLLER_REVISIONS: 1}
                counts = {each: len((await client.list(each, namespace)).items) for each in wanted}
                status = (await client.get(SETS, "sys", namespace)).get("status", {})
                gangs = (await client.list(GANGS, namespace)).items
                message = status.get("observedGeneration") and all(
                    each.get("status", {}).get("phase") for each in gangs
                )
                return bool(message) and counts == wanted

            await wait_for_condition(complete)
            await client.patch(SETS, "sys", {"spec": {"replicas": 0}}, namespace)

            async def emptied() -> bool:
                left = (CLIQUES, SCALING_GROUPS, GANGS, SERVICES, AUTOSCALERS)
                return not any([(await client.list(each, namespace)).items for each in left])

            await wait_for_condition(emptied)
            assert await client.get(LEASES, ACCOUNT, NAMESPACE)
            assert await client.get(SECRETS, ACCOUNT, NAMESPACE)
            await client.delete(SETS, "sys", namespace)
        log = operator.process.log.read_text()
        assert "forbidden" not in log.lower()


CAN: list[tuple[str, str, str, str]] = [
    # verb, group, resource[/subresource], namespace
    ("patch", "grove.io", "podcliquesets", "team"),
    ("patch", "grove.io", "podcliquesets/status", "team"),
    ("delete", "grove.io", "podcliquesets", "team"),
    ("create", "grove.io", "podcliques", "team"),
    ("create", "scheduler.grove.io", "podgangs", "team"),
    ("delete", "", "pods", "team"),
    ("create", "", "services", "team"),
    ("create", "", "events", "team"),
    ("create", "resource.k8s.io", "resourceclaims", "team"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
    # The controllers of GPU objects.
    ("list", "", "nodes", ""),
    ("patch", "", "nodes", ""),
    ("watch", "kgwe.nvidia.io", "gpuworkloads", "team"),
    ("patch", "kgwe.nvidia.io", "gpuworkloads/status", "team"),
    ("patch", "kgwe.nvidia.io", "migstrategies/status", ""),
    ("create", "scheduling.k8s.io", "priorityclasses", ""),
]
EXTRAS: list[tuple[str, str, str, str]] = [
    ("create", "resource.nvidia.com", "computedomains", "team"),
    ("create", "kai.scheduler", "topologies", ""),
    ("delete", "scheduling.run.ai", "podgroups", "team"),
    ("patch", "scheduling.volcano.sh", "podgroups", "team"),
    ("get", "scheduling.volcano.sh", "queues", ""),
]
CANNOT: list[tuple[str, str, str, str]] = [
    ("create", "grove.io", "podcliquesets", "team"),
    ("create", "grove.io", "clustertopologybindings", ""),
    ("get", "", "secrets", "team"),
    ("list", "", "secrets", ""),
    ("list", "", "secrets", NAMESPACE),
    ("create", "", "secrets", "team"),
    ("get", "", "configmaps", "team"),
    ("create", "", "pods/exec", "team"),
    ("create", "", "pods/binding", "team"),
    ("patch", "", "pods/status", "team"),
    ("create", "", "serviceaccounts/token", NAMESPACE),
    ("create", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("patch", "kgwe.nvidia.io", "gpuworkloads", "team"),
    ("create", "", "namespaces", ""),
    ("create", "apps", "deployments", "team"),
    ("create", "rbac.authorization.k8s.io", "roles", "team"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", ""),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("patch", "kai.scheduler", "topologies", ""),
    ("create", "scheduling.run.ai", "queues", ""),
    ("patch", "scheduling.volcano.sh", "queues", ""),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
    ("create", "coordination.k8s.io", "leases", "team"),
    ("impersonate", "", "users", ""),
    ("*", "*", "*", ""),
]


def test_service_account_has_no_other_permissions(deployed: Api) -> None:
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys([*CANNOT, *EXTRAS], False)}
    assert {act: build_account(deployed).is_allowed(*act) for act in table} == table

    hooks = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "")
    for verb in ("get", "create", "patch"):
        assert build_account(deployed).is_allowed(verb, *hooks, "kilonova-operator")
        assert not build_account(deployed).is_allowed(verb, *hooks, "another-configuration")


def test_extras_grant_the_kinds_of_other_projects(deployed: Api, kubectl: Kubectl) -> None:
    extras = str(MANIFESTS / "extras.yaml")
    done = kubectl(["apply", "-f", extras])
    assert done.code == 0, done.err
    try:
        wait_until_allowed(deployed, EXTRAS)
        table = {**dict.fromkeys([*CAN, *EXTRAS], True), **dict.fromkeys(CANNOT, False)}
        assert {act: build_account(deployed).is_allowed(*act) for act in table} == table
    finally:
        kubectl(["delete", "-f", extras])
