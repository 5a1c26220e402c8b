"""`kilonova run topology` with the account of `deploy/topology`, on both servers: it answers
readers over HTTPS, and its account may do exactly what it uses."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import Permission, ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.local.embedded_cluster import NODES, wait_for_condition
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig

MANIFESTS = Path(__file__).parents[3] / "deploy" / "topology"
NAMESPACE = "kilonova-system"
BINDINGS = unstructured_resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)

CAN: list[Permission] = [
    ("list", "", "nodes", ""),
    ("watch", "", "nodes", ""),
    ("list", "", "pods", "team"),
    ("watch", "", "pods", "team"),
    ("list", "resource.k8s.io", "resourceclaims", "team"),
    ("watch", "resource.k8s.io", "resourceslices", ""),
    ("list", "resource.k8s.io", "deviceclasses", ""),
    ("create", "authentication.k8s.io", "tokenreviews", ""),
    ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
]
CANNOT: list[Permission] = [
    ("patch", "", "nodes", ""),
    ("create", "", "pods", "team"),
    ("delete", "", "pods", "team"),
    ("create", "", "pods/binding", "team"),
    ("get", "", "secrets", NAMESPACE),
    ("create", "", "events", "team"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
    ("patch", "resource.k8s.io", "resourceclaims/status", "team"),
    ("*", "*", "*", ""),
]


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with the applied manifests."""
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    wait_until(lambda: all(account(api).is_allowed(*each) for each in CAN))
    yield api
    # The namespace is shared with other tests: what is in it goes, one by one.
    for kind, name in (
        ("deployment,service,serviceaccount", "kilonova-topology"),
        ("clusterrolebinding,clusterrole", "kilonova-topology"),
        ("clusterrole", "kilonova-topology-reader"),
    ):
        done = kubectl(["delete", kind, name, "-n", NAMESPACE, "--ignore-not-found"])
        assert done.code == 0, done.err


def account(api: Api) -> ServiceAccount:
    return ServiceAccount(api, NAMESPACE, "kilonova-topology")


def test_account_has_no_other_permissions(deployed: Api) -> None:
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {each: account(deployed).is_allowed(*each) for each in table} == table


async def test_readers_are_answered_and_others_are_not(deployed: Api, tmp_path: Path) -> None:
    node = f"gpu-of-{deployed.namespace}"
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", account(deployed).request_token()
    )
    options = ("--port", "0", "--grpc-port", "0", "--state-dir", str(tmp_path / "state"))
    reader = ServiceAccount(deployed, deployed.namespace, "default")
    async with deployed.client() as client:
        await client.create(NODES, {"metadata": {"name": node}})
        binding = await _bind_reader(client, deployed.namespace)
        try:
            capacity = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "64Gi", "pods": "10"}
            status = {"status": {"capacity": capacity, "allocatable": capacity}}
            await client.patch(NODES, node, status, subresource="status")
            with component_process("topology", kubeconfig, tmp_path, *options) as running:
                port = next(
                    each["port"]
                    for each in running.read_log()
                    if each.get("server") == "topology" and "port" in each
                )
                await _ask(port, tmp_path / "state" / "ca.crt", reader.request_token(), node)
            assert "forbidden" not in running.process.log.read_text().lower()
        finally:
            await client.delete(BINDINGS, binding)
            await client.delete(NODES, node)


async def _bind_reader(client: Any, namespace: str) -> str:
    name = f"topology-reader-{namespace}"
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "kilonova-topology-reader",
    }
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    await client.create(
        BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    )
    return name


async def _ask(port: int, authority: Path, token: str, node: str) -> None:
    tls = ssl.create_default_context(cafile=str(authority))
    url = f"https://localhost:{port}/v1/topology/{node}"
    async with aiohttp.ClientSession() as session:
        async with session.get(url, ssl=tls) as reply:
            assert reply.status == 401

        async def is_answered() -> bool:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(url, ssl=tls, headers=headers) as reply:
                return reply.status == 200 and (await reply.json())["freeGpus"] == 2

        await wait_for_condition(is_answered)
