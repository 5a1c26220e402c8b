"""Commands of a user with limited permissions, on both servers."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import Kilonova, complete_words
from tests.cli.terminal import TerminalSession
from tests.conftest import Api
from tests.harness.permissions import ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.local.embedded_cluster import PODS
from tests.scheduler.harness.embedded_scheduler import pod
from tests.workloads.process.operator_process import write_token_kubeconfig

FORBIDDEN = re.compile("permission denied: (nodes|pods) is forbidden")
"""Both are requested at the same time: either answer may come first."""
_RBAC = ("rbac.authorization.k8s.io", "v1")
_ACCOUNTS = unstructured_resource("", "v1", "serviceaccounts", "ServiceAccount", True)
_ROLES = unstructured_resource(*_RBAC, "roles", "Role", True)
_BINDINGS = unstructured_resource(*_RBAC, "rolebindings", "RoleBinding", True)
_CLUSTER_ROLES = unstructured_resource(*_RBAC, "clusterroles", "ClusterRole", False)
_CLUSTER_BINDINGS = unstructured_resource(
    *_RBAC, "clusterrolebindings", "ClusterRoleBinding", False
)


async def _create_member(api: Api, file: Path) -> Path:
    """A kubeconfig of a ServiceAccount that may list the pods of its namespace; there is one."""
    space = api.namespace
    async with api.client() as client:
        await client.create(_ACCOUNTS, {"metadata": {"name": "member"}}, space)
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
        await client.create(_ROLES, {"metadata": {"name": "member"}, "rules": [rule]}, space)
        await client.create(_BINDINGS, _binding("Role", "member", space), space)
        body = pod("mine", 0)
        body["metadata"]["namespace"] = space
        await client.create(PODS, body, space)
    account = ServiceAccount(api, space, "member")
    wait_until(lambda: account.is_allowed("list", "", "pods", space))
    return write_token_kubeconfig(api.access, file, account.request_token())


def _binding(kind: str, name: str, space: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "member", "namespace": space}],
    }


async def _grant_nodes_and_pods(api: Api) -> None:
    name = f"member-{api.namespace}"
    rule = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
    async with api.client() as client:
        await client.create(_CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
        await client.create(_CLUSTER_BINDINGS, _binding("ClusterRole", name, api.namespace))
    account = ServiceAccount(api, api.namespace, "member")
    wait_until(lambda: account.is_allowed("list", "", "nodes", ""))


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Path:
    return asyncio.run(_create_member(api, tmp_path / "member"))


def test_listing_workloads_of_a_namespace_needs_only_its_pods(
    api: Api, kilonova: Kilonova, kubeconfig: Path
):
    words = ("workloads", "-o", "json", "-n", api.namespace, "--kubeconfig", kubeconfig)
    done = kilonova(*words)
    assert done.code == 0, done.err
    assert [each["name"] for each in json.loads(done.out)] == ["mine"]
    sets = "podgangs, nodes, podcliquesets, podcliques"
    forbidden = f"{sets}, deployments, statefulsets, jobs, gpuworkloads"
    assert done.err == f"kilonova: you may not list {forbidden}: their data is omitted\n"


def test_completion_offers_only_permitted_names(api: Api, kilonova: Kilonova, kubeconfig: Path):
    words = ["why", "--kubeconfig", kubeconfig, "-n", api.namespace, "m"]
    assert complete_words(kilonova, words) == ["mine"]


def test_top_omits_forbidden_tables(api: Api, kilonova: Kilonova, kubeconfig: Path):
    rejected = kilonova("top", "--once", "--kubeconfig", kubeconfig)
    assert rejected.code == 1
    assert FORBIDDEN.search(rejected.err)
    asyncio.run(_grant_nodes_and_pods(api))
    command = kilonova.command("top", "--kubeconfig", kubeconfig)
    with TerminalSession(command, kilonova.environment()) as session:
        session.wait_on_screen("nodes ready")
        session.type("q")
        assert session.wait_for_exit() == 0


def test_console_without_list_permissions_does_not_start(kilonova: Kilonova, kubeconfig: Path):
    words = ("run", "console", "--port", "0", "--health-port", "0")
    done = kilonova(*words, "--kubeconfig", kubeconfig)
    assert done.code == 1
    assert FORBIDDEN.search(done.err)
    assert "deploy/console/clusterrole.yaml" in done.err
