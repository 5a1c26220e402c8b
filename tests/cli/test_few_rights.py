"""Commands of whoever may see only a part of a cluster, on both servers."""

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from kilonova.kube.resource import plain
from tests.cli.command import Kilonova
from tests.cli.terminal import Typing
from tests.conftest import Api
from tests.harness.rights import Account
from tests.local.admission.webhook_server import until
from tests.local.embedded_cluster import PODS
from tests.scheduler.scheduling import pod
from tests.workloads.process.operator_process import token_kubeconfig

NO_RIGHT = re.compile("a right is missing: (nodes|pods) is forbidden")
"""They are asked for together: which refusal comes first is chance."""
_RBAC = ("rbac.authorization.k8s.io", "v1")
_ACCOUNTS = plain("", "v1", "serviceaccounts", "ServiceAccount", True)
_ROLES = plain(*_RBAC, "roles", "Role", True)
_BINDINGS = plain(*_RBAC, "rolebindings", "RoleBinding", True)
_CLUSTER_ROLES = plain(*_RBAC, "clusterroles", "ClusterRole", False)
_CLUSTER_BINDINGS = plain(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", False)


async def _member(api: Api, file: Path) -> Path:
    """A kubeconfig of somebody who sees the pods of one namespace, one of which is there."""
    space = api.namespace
    async with api.client() as client:
        await client.create(_ACCOUNTS, {"metadata": {"name": "member"}}, space)
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
        await client.create(_ROLES, {"metadata": {"name": "member"}, "rules": [rule]}, space)
        await client.create(_BINDINGS, _binding("Role", "member", space), space)
        body = pod("mine", 0)
        body["metadata"]["namespace"] = space
        await client.create(PODS, body, space)
    account = Account(api, space, "member")
    until(lambda: account.may("list", "", "pods", space))
    return token_kubeconfig(api.access, file, account.token())


def _binding(kind: str, name: str, space: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "member", "namespace": space}],
    }


async def _sees_nodes_and_pods(api: Api) -> None:
    name = f"member-{api.namespace}"
    rule = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
    async with api.client() as client:
        await client.create(_CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
        await client.create(_CLUSTER_BINDINGS, _binding("ClusterRole", name, api.namespace))
    account = Account(api, api.namespace, "member")
    until(lambda: account.may("list", "", "nodes", ""))


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Path:
    return asyncio.run(_member(api, tmp_path / "member"))


def test_workloads_of_a_namespace_need_no_more_than_its_pods(
    api: Api, kilonova: Kilonova, kubeconfig: Path
):
    words = ("workloads", "-o", "json", "-n", api.namespace, "--kubeconfig", kubeconfig)
    done = kilonova(*words)
    assert done.code == 0, done.err
    assert [each["name"] for each in json.loads(done.out)] == ["mine"]
    unseen = "podgangs, nodes, podcliquesets, podcliques, deployments, statefulsets, jobs"
    assert done.err == f"kilonova: you may not list {unseen}: what they say is left out\n"


def test_names_are_completed_as_far_as_one_may_see(api: Api, kilonova: Kilonova, kubeconfig: Path):
    words = ["kilonova", "why", "--kubeconfig", str(kubeconfig), "-n", api.namespace, "m"]
    environment = kilonova.environment() | {
        "_KILONOVA_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        kilonova.command(), env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["mine"]


def test_top_does_without_what_it_may_not_see(api: Api, kilonova: Kilonova, kubeconfig: Path):
    refused = kilonova("top", "--once", "--kubeconfig", kubeconfig)
    assert refused.code == 1
    assert NO_RIGHT.search(refused.err)
    asyncio.run(_sees_nodes_and_pods(api))
    command = kilonova.command("top", "--kubeconfig", kubeconfig)
    with Typing(command, kilonova.environment()) as typing:
        typing.sees("nodes ready")
        typing.type("q")
        assert typing.ends() == 0


def test_a_console_without_anything_to_show_is_refused(kilonova: Kilonova, kubeconfig: Path):
    words = ("run", "console", "--port", "0", "--health-port", "0")
    done = kilonova(*words, "--kubeconfig", kubeconfig)
    assert done.code == 1
    assert NO_RIGHT.search(done.err)
    assert "deploy/console/clusterrole.yaml" in done.err
