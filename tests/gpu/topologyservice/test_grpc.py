"""The topology service over gRPC: the same answers, errors and rules."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import grpc
import grpc.aio
import msgspec
import pytest

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.gpu.topologyservice.grpc.servicer import TopologyServicer
from kilonova.gpu.topologyservice.grpc.topology_grpc import (
    ClusterTopologyStub,
    cluster_topology_service,
)
from kilonova.gpu.topologyservice.grpc.topology_pb2 import (
    FindBestSetRequest,
    GetClusterRequest,
    GetNodeRequest,
)
from kilonova.gpu.topologyservice.index import TopologyIndex
from kilonova.gpu.topologyservice.service import TopologyService
from kilonova.kube import Store
from kilonova.kube.grpc import ClientSettings, GrpcClient, GrpcServer
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import ClusterStores
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.objects.core_v1 import Node, Pod
from tests.scheduler.extender.extender_fixture import node, pod


@asynccontextmanager
async def _serve(*, synced: bool = True) -> AsyncGenerator[ClusterTopologyStub]:
    """Two nodes with eight GPUs each, of which a pod has two."""
    nodes, pods = Store(Node), Store(Pod)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    stores = ClusterStores(nodes, pods, Store(PodGang), Store(Queue))
    cache = SchedulerCache(stores, lambda: now, lambda: None)
    snapshot = cache.cluster.snapshot
    service = TopologyService(
        snapshot, TopologyIndex(snapshot, nodes), default_scoring(), lambda: synced
    )
    for name in ("a", "b"):
        nodes.put(msgspec.convert(node(name), Node))
    pods.put(msgspec.convert(pod("train", 2, node="a", devices="0,1"), Pod))
    servicer = TopologyServicer(service, None)
    server = GrpcServer("topology", [cluster_topology_service(servicer)], "127.0.0.1:0")
    port = server.bind()
    running = asyncio.create_task(server.run())
    try:
        settings = ClientSettings(attempts=1)
        async with GrpcClient(f"localhost:{port}", settings=settings) as client:
            yield client.stub(ClusterTopologyStub)
    finally:
        server.stop()
        await running


async def test_cluster_node_and_best_set_are_answered() -> None:
    async with _serve() as stub:
        cluster = await stub.get_cluster(GetClusterRequest())
        assert (cluster.gpus, cluster.free_gpus) == (16, 14)
        one = await stub.get_node(GetNodeRequest(node="a"))
        assert one == cluster.nodes[0]
        assert [each.free_milli for each in one.gpus] == [0, 0, *[1000] * 6]
        answer = await stub.find_best_set(FindBestSetRequest(gpus=8))
        assert [(each.node, list(each.gpus)) for each in answer.sets] == [("b", list(range(8)))]
        answer = await stub.find_best_set(FindBestSetRequest(gpus=8, models=["H100"]))
        assert (len(answer.sets), answer.reason) == (0, "there are no 8 free GPUs of model H100")


async def test_errors_have_the_code_and_the_fix() -> None:
    async with _serve() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stub.get_node(GetNodeRequest(node="c"))
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        with pytest.raises(grpc.aio.AioRpcError) as invalid:
            await stub.find_best_set(FindBestSetRequest(gpus=0))
        assert invalid.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert invalid.value.details() == "gpus: 0 is not between 1 and 65536"


async def test_incomplete_caches_answer_nothing() -> None:
    async with _serve(synced=False) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.get_node(GetNodeRequest(node="a"))
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
