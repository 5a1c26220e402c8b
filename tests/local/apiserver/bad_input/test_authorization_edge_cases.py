"""Attempts of a user with few permissions to gain more."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kilonova.kube.client.transport import Reply, Request
from kilonova.local.apiserver.auth import MASTERS, User
from kilonova.local.cluster import EmbeddedCluster
from tests.local.embedded_cluster import run_cluster

ROOT = User("root", groups=(MASTERS,))
EVE = User("eve")
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with run_cluster(controllers="") as found:
        yield found


async def send(
    cluster: EmbeddedCluster,
    user: User,
    method: str,
    path: str,
    body: Any,
    media: str = "application/json",
) -> tuple[int, Any]:
    query = [("fieldManager", "test")]
    headers = {"content-type": media}
    sent = Request(method, path, query, headers, msgspec.json.encode(body))
    reply = await cluster.api.handle(sent, user)
    assert isinstance(reply, Reply)
    return reply.status, msgspec.json.decode(reply.body)


async def allow(cluster: EmbeddedCluster, *verbs: str) -> None:
    """Allow the user Eve these verbs on ConfigMaps and Leases of the namespace `default`."""
    rule = {
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["configmaps", "leases"],
        "verbs": verbs,
    }
    role = {"metadata": {"name": "few"}, "rules": [rule]}
    binding = {
        "metadata": {"name": "few"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "few"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    assert (await send(cluster, ROOT, "POST", f"{RBAC}/roles", role))[0] == 201
    assert (await send(cluster, ROOT, "POST", f"{RBAC}/rolebindings", binding))[0] == 201


APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
PUT = {"metadata": {"name": "new"}}


async def test_user_who_can_patch_creates_nothing_by_applying(cluster: EmbeddedCluster) -> None:
    await allow(cluster, "get", "patch")
    status, received = await send(cluster, EVE, "PATCH", f"{MAPS}/new", APPLIED, APPLY)
    assert status == 403
    assert received["message"] == (
        'configmaps "new" is forbidden: User "eve" cannot create resource "configmaps" '
        'in API group "" in the namespace "default"'
    )
    assert (await send(cluster, ROOT, "PATCH", f"{MAPS}/new", APPLIED, APPLY))[0] == 201
    assert (await send(cluster, EVE, "PATCH", f"{MAPS}/new", APPLIED, APPLY))[0] == 200


async def test_user_who_can_update_creates_nothing_by_replacing(cluster: EmbeddedCluster) -> None:
    await allow(cluster, "get", "update")
    assert (await send(cluster, EVE, "PUT", f"{LEASES}/new", PUT))[0] == 403
    assert (await send(cluster, ROOT, "PUT", f"{LEASES}/new", PUT))[0] == 201


async def test_user_who_can_create_creates_by_applying_and_replacing(
    cluster: EmbeddedCluster,
) -> None:
    await allow(cluster, "create", "patch", "update")
    assert (await send(cluster, EVE, "PATCH", f"{MAPS}/new", APPLIED, APPLY))[0] == 201
    assert (await send(cluster, EVE, "PUT", f"{LEASES}/new", PUT))[0] == 201


async def test_status_subresource_cannot_change_labels(cluster: EmbeddedCluster) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = {"metadata": {"name": "web", "labels": {"team": "one"}}, "spec": spec}
    assert (await send(cluster, ROOT, "POST", path, made))[0] == 201
    patch = {"metadata": {"labels": {"team": "two"}}, "status": {"observedGeneration": 7}}
    merge = "application/merge-patch+json"
    status, found = await send(cluster, ROOT, "PATCH", f"{path}/web/status", patch, merge)
    assert status == 200
    assert found["status"]["observedGeneration"] == 7
    assert found["metadata"]["labels"] == {"team": "one"}


async def test_forged_continue_token_cannot_read_another_namespace(
    cluster: EmbeddedCluster,
) -> None:
    await allow(cluster, "list")
    other = {"metadata": {"name": "before"}}
    assert (await send(cluster, ROOT, "POST", "/api/v1/namespaces", other))[0] == 201
    for namespace in ("before", "default"):
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        body = {"metadata": {"name": f"in-{namespace}"}}
        assert (await send(cluster, ROOT, "POST", path, body))[0] == 201
    for start in ("a", "before/", "default", "default/", "default/../before/"):
        for version in (-1, 1 << 40, cluster.store.revision, cluster.store.revision - 1):
            token = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
            text = base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()
            sent = Request("GET", MAPS, [("continue", text), ("limit", "9")])
            reply = await cluster.api.handle(sent, EVE)
            assert isinstance(reply, Reply)
            items = msgspec.json.decode(reply.body).get("items") or []
            assert {each["metadata"]["namespace"] for each in items} <= {"default"}
