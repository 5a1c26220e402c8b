"""An embedded cluster with the topology service, in virtual time, asked as a client does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from kilonova.gpu.topologyservice.assembly import BuiltTopologyService, build_topology_service
from kilonova.kube import Client, Reply, Request
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.serving.routing import find_handler
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes import Fleet
from tests.gpu.agent.agent_cluster import gpu_fleet, run_gpu_cluster
from tests.local.embedded_cluster import NODES, wait_for_condition

_RBAC = "rbac.authorization.k8s.io"
ACCOUNTS = unstructured_resource("", "v1", "serviceaccounts", "ServiceAccount", True)
ROLES = unstructured_resource(_RBAC, "v1", "clusterroles", "ClusterRole", False)
BINDINGS = unstructured_resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)


@dataclass
class TopologyClient:
    """The service over a cluster, and a caller of it."""

    cluster: EmbeddedCluster
    client: Client
    built: BuiltTopologyService
    token: str = ""

    async def send(self, path: str, method: str = "GET", **query: str) -> Reply:
        """The reply to a request with the token."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        handler = find_handler(self.built.handlers.routes(), path)
        assert handler is not None
        reply = await handler(Request(method, path, list(query.items()), headers))
        assert isinstance(reply, Reply)
        return reply

    async def get(self, path: str, **query: str) -> Any:
        """The decoded answer."""
        reply = await self.send(path, **query)
        assert reply.status == 200, reply.body
        return msgspec.json.decode(reply.body)


@asynccontextmanager
async def run_topology_service(
    fleet: Fleet | None = None, *, authorize: bool = False
) -> AsyncGenerator[TopologyClient]:
    """A cluster with simulated GPU nodes, and the service with synced caches."""
    async with run_gpu_cluster(fleet or gpu_fleet(count=2)) as (cluster, client):
        built = build_topology_service(
            cluster.client("system:serviceaccount:kilonova-system:kilonova-topology"),
            authorize=authorize,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
        )
        running = [asyncio.create_task(each.run()) for each in built.informers]

        async def is_complete() -> bool:
            totals = built.service.index.totals()
            return built.service.has_synced() and totals.nodes == len(await _gpu_nodes(client))

        try:
            await wait_for_condition(is_complete)
            yield TopologyClient(cluster, client, built)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def create_token(service: TopologyClient, account: str) -> str:
    """A ServiceAccount, and a token for it."""
    await service.client.create(ACCOUNTS, {"metadata": {"name": account}}, "default")
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
    headers = {"content-type": "application/json"}
    reply = await service.client.send(Request("POST", path, headers=headers, body=body))
    return str(msgspec.json.decode(reply.body)["status"]["token"])


async def allow_reading(service: TopologyClient, account: str, *paths: str) -> None:
    """Grant `get` on paths to a ServiceAccount."""
    rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
    await service.client.create(ROLES, {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    await service.client.create(
        BINDINGS, {"metadata": {"name": "reader"}, "subjects": [subject], "roleRef": role}
    )


async def _gpu_nodes(client: Client) -> list[Any]:
    listing = await client.list(NODES)
    return [each for each in listing.items if "nvidia.com/gpu" in each["status"]["allocatable"]]
