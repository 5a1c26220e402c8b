"""`deploy/serving` on both servers: the process runs under its account, which has exactly the
permissions that it uses. No pod runs there: the test writes what a kubelet would."""

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Resource
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import ServiceAccount
from tests.local.embedded_cluster import LEASES, wait_for_condition
from tests.serving.serving_cluster import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SERVICES,
    INGRESSES,
    SECRETS,
    SERVICES,
    SETS,
    inference_service,
    server_group,
)
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig
from tests.workloads.process.test_deployed_operator import wait_until

MANIFESTS = Path(__file__).parents[3] / "deploy" / "serving"
NAMESPACE = "kilonova-system"
ACCOUNT = "kilonova-serving"
GROUP = "serving.kilonova.dev"

CAN: list[tuple[str, str, str, str]] = [
    # verb, group, resource[/subresource], namespace
    ("watch", GROUP, "inferenceservices", "team"),
    ("patch", GROUP, "inferenceservices/status", "team"),
    ("update", GROUP, "inferenceservices/finalizers", "team"),
    ("create", "grove.io", "podcliquesets", "team"),
    ("delete", "grove.io", "podcliquesets", "team"),
    ("patch", "grove.io", "podcliquesets/scale", "team"),
    ("patch", "apps", "deployments", "team"),
    ("get", "", "secrets", "team"),
    ("patch", "", "pods", "team"),
    ("create", "", "persistentvolumeclaims", "team"),
    ("create", "", "events", "team"),
    ("patch", "keda.sh", "scaledobjects", "team"),
    ("patch", "monitoring.coreos.com", "servicemonitors", "team"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
]
CANNOT: list[tuple[str, str, str, str]] = [
    ("create", GROUP, "inferenceservices", "team"),
    ("patch", GROUP, "inferenceservices", "team"),
    ("delete", GROUP, "inferenceservices", "team"),
    ("delete", "", "secrets", "team"),
    ("create", "", "pods", "team"),
    ("delete", "", "pods", "team"),
    ("create", "", "pods/exec", "team"),
    ("delete", "", "persistentvolumeclaims", "team"),
    ("patch", "grove.io", "podcliquesets/status", "team"),
    ("list", "", "nodes", ""),
    ("create", "", "serviceaccounts/token", NAMESPACE),
    ("create", "", "namespaces", ""),
    ("create", "coordination.k8s.io", "leases", "team"),
    ("create", "rbac.authorization.k8s.io", "roles", "team"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
    ("impersonate", "", "users", ""),
    ("*", "*", "*", ""),
]


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with the CRDs and the applied manifests."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)

    asyncio.run(install())
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    account = build_account(api)
    wait_until(lambda: all(account.is_allowed(*act) for act in CAN))
    yield api
    done = kubectl(["delete", "-k", str(MANIFESTS), "--ignore-not-found"])
    assert done.code == 0, done.err


def build_account(api: Api) -> ServiceAccount:
    """The one of the manifests."""
    return ServiceAccount(api, NAMESPACE, ACCOUNT)


def build_full_service() -> Any:
    """A service of which every kind of object is made that all clusters have."""
    cvmfs = {"cvmfs": {}, "mountPath": "/models"}
    return inference_service(
        "web",
        server_group(modelRepository=cvmfs),
        gateway={
            "replicas": 2,
            "ingress": {"host": "web.example.com"},
            "staticConfig": {"name": "envoy"},
        },
        monitoring={"serviceMonitors": True},
    )


async def list_names(client: Client, resource: Resource[Any], namespace: str) -> set[str]:
    found = await client.list(resource, namespace)
    return {each["metadata"]["name"] for each in found.items}


async def test_service_account_has_all_permissions_of_the_process(
    deployed: Api, tmp_path: Path
) -> None:
    namespace = deployed.namespace
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", build_account(deployed).request_token()
    )
    ports = ("--control-plane-port", "0", "--control-plane-http-port", "0")
    with component_process("serving", kubeconfig, tmp_path, *ports) as process:
        async with deployed.client() as client:
            config = {"metadata": {"name": "envoy"}, "data": {"envoy.yaml": "admin: {}"}}
            await client.create(CONFIG_MAPS, config, namespace)
            await client.create(INFERENCE_SERVICES, build_full_service(), namespace)
            wanted: dict[Resource[Any], set[str]] = {
                SETS: {"web-model"},
                DEPLOYMENTS: {"web-gateway"},
                SERVICES: {"web", "web-model-servers"},
                SECRETS: {"web-gateway"},
                BUDGETS: {"web-gateway"},
                INGRESSES: {"web"},
                CLAIMS: {"cvmfs"},
            }

            async def complete() -> bool:
                return all(
                    [
                        names <= await list_names(client, each, namespace)
                        for each, names in wanted.items()
                    ]
                )

            await wait_for_condition(complete)
            secret = await client.get(SECRETS, "web-gateway", namespace)
            assert base64.b64decode(secret["data"]["bootstrap.yaml"]) == b"admin: {}"

            async def reported() -> bool:
                found = await client.get(INFERENCE_SERVICES, "web", namespace)
                conditions = found.get("status", {}).get("conditions", [])
                return any(each["reason"] == "MonitorKindsMissing" for each in conditions)

            await wait_for_condition(reported)
            await client.patch(
                INFERENCE_SERVICES,
                "web",
                {"spec": {"gateway": {"replicas": 1, "ingress": None}}},
                namespace,
            )

            async def removed() -> bool:
                return not await list_names(client, BUDGETS, namespace) and not await list_names(
                    client, INGRESSES, namespace
                )

            await wait_for_condition(removed)
            assert await client.get(LEASES, ACCOUNT, NAMESPACE)
            assert await client.get(SECRETS, ACCOUNT, NAMESPACE)
            await client.delete(INFERENCE_SERVICES, "web", namespace)
        log = process.process.log.read_text()
        assert "forbidden" not in log.lower()


def test_service_account_has_no_other_permissions(deployed: Api) -> None:
    account = build_account(deployed)
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {act: account.is_allowed(*act) for act in table} == table
