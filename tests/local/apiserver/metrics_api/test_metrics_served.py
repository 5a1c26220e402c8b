"""Requests to metrics.k8s.io, in process."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kilonova.kube.client.transport import Request
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.kubelet_api import ContainerUsage, NodeUsage, PodUsage
from tests.local.apiserver.streaming.local_kubelet import LocalMachineKubelet
from tests.local.embedded_cluster import ACCOUNTS, NODES, PODS, START_TIME, pod, run_cluster

ROOT = User("root", groups=("system:masters",))
BASE = "/apis/metrics.k8s.io/v1beta1"


class Api:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.machine = LocalMachineKubelet()

    async def ask(self, path: str, *, accept: str = "", method: str = "GET") -> tuple[int, Any]:
        where, _, query = path.partition("?")
        pairs = [tuple(each.split("=", 1)) for each in query.split("&") if each]
        headers = {"accept": accept} if accept else {}
        request = Request(method, BASE + where, [(a, b) for a, b in pairs], headers)
        response: Any = await self.cluster.api.handle(request, ROOT)
        return response.status, msgspec.json.decode(response.body)

    async def names(self, path: str) -> list[str]:
        status, body = await self.ask(path)
        assert status == 200, body
        return [item["metadata"]["name"] for item in body["items"]]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Two nodes, one of which has usage; three pods, two of which it reports."""
    async with run_cluster(controllers="") as cluster:
        made = Api(cluster)
        cluster.kubelets.register("busy", made.machine)
        cluster.kubelets.register("new", LocalMachineKubelet())
        client = cluster.client("tester")
        for namespace in ("default", "kube-system"):
            await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace)
        for name in ("busy", "new"):
            await client.create(NODES, {"metadata": {"name": name, "labels": {"name": name}}})
        for name, namespace, node in (
            ("a", "default", "busy"),
            ("b", "kube-system", "busy"),
            ("c", "default", "new"),
        ):
            made_pod = pod(name, metadata={"labels": {"app": name}}, nodeName=node)
            await client.create(PODS, made_pod, namespace)
        container = (ContainerUsage("main", 1_000_000, 1 << 20),)
        pods = (
            PodUsage("default", "a", container),
            PodUsage("kube-system", "b", container),
            PodUsage("default", "gone", container),
        )
        made.machine.measured = NodeUsage(START_TIME, 15, 2_000_000, 4 << 20, pods)
        yield made


async def test_only_measured_objects_are_listed(api: Api) -> None:
    assert await api.names("/nodes") == ["busy"]
    assert await api.names("/pods") == ["a", "b"]
    assert await api.names("/namespaces/default/pods") == ["a"]


async def test_selectors_are_applied(api: Api) -> None:
    assert await api.names("/pods?labelSelector=app in (b,c)") == ["b"]
    assert await api.names("/pods?fieldSelector=metadata.namespace=kube-system") == ["b"]
    assert await api.names("/pods?fieldSelector=spec.nodeName=new") == []
    assert await api.names("/nodes?labelSelector=name=new") == []
    status, body = await api.ask("/pods?labelSelector=((")
    assert (status, body["reason"]) == (400, "BadRequest")


async def test_get_returns_the_object_or_metrics_servers_error(api: Api) -> None:
    status, body = await api.ask("/namespaces/default/pods/a")
    assert (status, body["kind"], body["metadata"]["labels"]) == (200, "PodMetrics", {"app": "a"})
    status, body = await api.ask("/namespaces/default/pods/c")
    assert (status, body["message"]) == (404, 'pods.metrics.k8s.io "default/c" not found')
    status, body = await api.ask("/nodes/none")
    assert (status, body["message"]) == (404, 'nodes.metrics.k8s.io "none" not found')


async def test_metrics_table_has_its_own_columns(api: Api) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    status, body = await api.ask("/nodes", accept=accept)
    assert status == 200
    assert [each["name"] for each in body["columnDefinitions"]] == [
        "Name",
        "cpu",
        "memory",
        "Window",
    ]
    assert body["rows"][0]["cells"] == ["busy", "2m", "4Mi", "15s"]


async def test_other_verbs_are_not_allowed(api: Api) -> None:
    for method, path in (
        ("POST", "/nodes"),
        ("DELETE", "/nodes/busy"),
        ("GET", "/pods?watch=true"),
    ):
        status, body = await api.ask(path, method=method)
        assert (status, body["reason"]) == (405, "MethodNotAllowed")


async def test_node_without_usage_is_left_out(api: Api) -> None:
    class Broken(LocalMachineKubelet):
        async def usage(self) -> NodeUsage | None:
            raise ConnectionError("gone")

    api.cluster.kubelets.register("new", Broken())
    assert await api.names("/nodes") == ["busy"]
