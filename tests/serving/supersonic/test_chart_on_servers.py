"""The chart on both servers: its manifests are valid, a tenant may install it, and Kilonova runs
with the rights that it asks for, and no others."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Resource
from kilonova.serving.supersonic import convert_values, read_values
from tests.conftest import Api
from tests.harness.permissions import ServiceAccount
from tests.local.embedded_cluster import wait_for_condition
from tests.serving.serving_cluster import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INGRESSES,
    SECRETS,
    SERVICES,
)
from tests.serving.supersonic.helm_chart import (
    CHART,
    EXAMPLES,
    RELEASE,
    HelmFailed,
    render,
    run_helm,
)
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig
from tests.workloads.process.test_deployed_operator import wait_until

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, dict[str, Any])
_PLURALS = {"Ingress": "ingresses"}
_TENANT_ROLES = (
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
)
VALUES = """
keda: {enabled: true}
triton:
  modelRepository: {enabled: true, storageType: cvmfs-pvc, mountPath: /cvmfs}
envoy:
  replicas: 2
  ingress: {enabled: true, hostName: sonic.example.org}
grafana: {enabled: true}
"""
CONTROLLER = f"{RELEASE}-kilonova"
CAN: list[tuple[str, str, str]] = [
    # verb, group, resource[/subresource], in the namespace
    ("watch", "", "configmaps"),
    ("patch", "", "configmaps"),
    ("create", "", "secrets"),
    ("patch", "", "services"),
    ("patch", "", "pods"),
    ("create", "", "persistentvolumeclaims"),
    ("create", "", "events"),
    ("delete", "apps", "deployments"),
    ("patch", "apps", "deployments/scale"),
    ("create", "policy", "poddisruptionbudgets"),
    ("create", "networking.k8s.io", "ingresses"),
    ("create", "autoscaling", "horizontalpodautoscalers"),
    ("create", "coordination.k8s.io", "leases"),
]
CANNOT: list[tuple[str, str, str]] = [
    ("create", "", "pods"),
    ("create", "", "pods/exec"),
    ("delete", "", "persistentvolumeclaims"),
    ("create", "", "serviceaccounts/token"),
    ("create", "rbac.authorization.k8s.io", "roles"),
    ("list", "serving.kilonova.dev", "inferenceservices"),
    ("list", "grove.io", "podcliquesets"),
    ("list", "monitoring.coreos.com", "servicemonitors"),
]


def build_path(manifest: Any) -> str:
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}"


@pytest.fixture
def server(api: Api) -> Api:
    """A server with the CRDs."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)

    asyncio.run(install())
    return api


def test_all_manifests_of_all_examples_are_strictly_valid(server: Api, tmp_path: Path) -> None:
    annotated = tmp_path / "annotated.yaml"
    annotated.write_text("triton: {annotations: {a: b}, readinessProbe: {periodSeconds: 3}}")
    plain = tmp_path / "plain.yaml"
    plain.write_text("triton: {annotations: {a: b}}")
    for path in (*EXAMPLES, annotated, plain):
        conversion = convert_values(read_values(path), RELEASE, server.namespace)
        manifests = render(tmp_path, "--values", str(path), namespace=server.namespace)
        for each in (conversion.service, *manifests.values()):
            query = f"?dryRun=All&fieldValidation={quote('Strict')}"
            code, answer = server.access.request("POST", build_path(each) + query, each)
            assert code == 201, f"{path.stem}, {each['kind']}: {answer}"


@pytest.fixture
def tenant(server: Api, tmp_path: Path) -> Path:
    """The kubeconfig of an account with the role `admin` in the namespace alone."""
    namespace = server.namespace
    account = {"metadata": {"name": "tenant"}}
    code, answer = server.access.request(
        "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account
    )
    assert code == 201, answer
    for role in _TENANT_ROLES:
        binding = {
            "metadata": {"name": role.rpartition(":")[2]},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
        code, answer = server.access.request("POST", path, binding)
        assert code == 201, answer
    found = ServiceAccount(server, namespace, "tenant")
    wait_until(lambda: found.is_allowed("create", "", "secrets", namespace))
    return write_token_kubeconfig(server.access, tmp_path / "tenant", found.request_token())


@pytest.fixture
def installed(server: Api, tenant: Path, tmp_path: Path) -> Iterator[Api]:
    """A release that a tenant has installed."""
    values = tmp_path / "values.yaml"
    values.write_text(VALUES)
    words = ("--namespace", server.namespace)
    run_helm(
        tmp_path,
        *("install", RELEASE, str(CHART), *words, "--values", str(values)),
        kubeconfig=tenant,
    )
    account = ServiceAccount(server, server.namespace, CONTROLLER)
    wait_until(lambda: all(account.is_allowed(*act, server.namespace) for act in CAN))
    yield server
    run_helm(tmp_path, "uninstall", RELEASE, *words, kubeconfig=tenant)


def test_a_tenant_of_a_namespace_installs_the_chart(
    installed: Api, tenant: Path, tmp_path: Path
) -> None:
    words = ("--namespace", installed.namespace)
    notes = run_helm(tmp_path, "get", "notes", RELEASE, *words, kubeconfig=tenant)
    assert f"-u {RELEASE}.{installed.namespace}.svc.cluster.local:8001" in notes
    assert "-u sonic.example.org:443 --ssl" in notes
    account = ServiceAccount(installed, installed.namespace, CONTROLLER)
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {act: account.is_allowed(*act, installed.namespace) for act in table} == table
    assert not any(account.is_allowed(*act, "default") for act in CAN)


def test_a_release_keeps_its_mode(installed: Api, tenant: Path, tmp_path: Path) -> None:
    words = ("upgrade", RELEASE, str(CHART), "--namespace", installed.namespace)
    run_helm(tmp_path, *words, kubeconfig=tenant)
    with pytest.raises(HelmFailed, match=f"a release keeps its mode: helm uninstall {RELEASE}"):
        run_helm(tmp_path, *words, "--set", "mode=cluster", kubeconfig=tenant)


async def test_the_process_serves_with_the_rights_of_the_chart(
    installed: Api, tmp_path: Path
) -> None:
    namespace = installed.namespace
    account = ServiceAccount(installed, namespace, CONTROLLER)
    kubeconfig = write_token_kubeconfig(
        installed.access, tmp_path / "account", account.request_token()
    )
    options = ("--source=configmaps", f"--namespace={namespace}", f"--service={RELEASE}")
    ports = ("--control-plane-port=0", "--control-plane-http-port=0")
    with component_process("serving", kubeconfig, tmp_path, *options, *ports) as process:
        async with installed.client() as client:
            await wait_for_condition(lambda: has_objects(client, namespace))
            servers = await client.get(DEPLOYMENTS, f"{RELEASE}-triton", namespace)
            assert servers["spec"]["replicas"] == 1
            assert servers["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
            await wait_for_condition(lambda: has_annotations(client, namespace))
            # The objects of the chart are those that the process writes: none is left behind.
            certificates = await client.get(SECRETS, CONTROLLER, namespace)
            assert set(certificates["data"]) >= {"tls.crt", "tls.key"}
            for written in (certificates, await client.get(LEASES, CONTROLLER, namespace)):
                manager = written["metadata"]["labels"]["app.kubernetes.io/managed-by"]
                assert manager == "Helm"

            # The number is now that of the autoscaler, which writes it through /scale.
            values = "keda: {enabled: true, minReplicaCount: 3, maxReplicaCount: 5}"
            patch = {"data": {"values.yaml": values}}
            await client.patch(CONFIG_MAPS, RELEASE, patch, namespace)

            async def changed() -> bool:
                found = await client.get(DEPLOYMENTS, f"{RELEASE}-triton", namespace)
                ingresses = await client.list(INGRESSES, namespace)
                return found["spec"]["replicas"] == 3 and not ingresses.items

            await wait_for_condition(changed)
        assert "forbidden" not in process.process.log.read_text().lower()


async def has_objects(client: Client, namespace: str) -> bool:
    wanted = {
        DEPLOYMENTS: {f"{RELEASE}-triton", f"{RELEASE}-gateway"},
        SERVICES: {RELEASE, f"{RELEASE}-triton-servers"},
        SECRETS: {f"{RELEASE}-gateway", CONTROLLER},
        INGRESSES: {RELEASE},
    }
    for resource, names in wanted.items():
        found = await client.list(resource, namespace)
        if not names <= {each["metadata"]["name"] for each in found.items}:
            return False
    return True


async def has_annotations(client: Client, namespace: str) -> bool:
    config_map = await client.get(CONFIG_MAPS, RELEASE, namespace)
    annotations = config_map["metadata"].get("annotations", {})
    conversion = json.loads(annotations.get("serving.kilonova.dev/conversion", "{}"))
    status = json.loads(annotations.get("serving.kilonova.dev/status", "{}"))
    return len(conversion.get("warnings", ())) == 1 and status.get("phase") == "Pending"
