"""The gRPC service: the answers of `TopologyService` as messages."""

from typing import TypeVar

import grpc
import grpc.aio

from kilonova.gpu.topologyservice.authorization import AccessDenied, Authorizer
from kilonova.gpu.topologyservice.best_set import InvalidQuery
from kilonova.gpu.topologyservice.grpc.topology_grpc import ClusterTopologyServicer
from kilonova.gpu.topologyservice.grpc.topology_pb2 import (
    BestSet,
    ChosenSet,
    Cluster,
    FindBestSetRequest,
    GetClusterRequest,
    GetNodeRequest,
    Gpu,
    Instance,
    Link,
    Node,
)
from kilonova.gpu.topologyservice.handlers import BEST_SET, TOPOLOGY
from kilonova.gpu.topologyservice.queries import parse_query
from kilonova.gpu.topologyservice.service import TopologyService
from kilonova.gpu.topologyservice.views import GpuView, NodeView

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

_CODES = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}


class TopologyServicer(ClusterTopologyServicer):
    """Authorises as the HTTP API does, for the same paths; the token is the call's metadata
    `authorization`."""

    def __init__(self, service: TopologyService, authorizer: Authorizer | None) -> None:
        self._service = service
        self._authorizer = authorizer
        self._messages: dict[str, tuple[NodeView, Node]] = {}

    async def get_cluster(
        self,
        request: GetClusterRequest,
        context: "grpc.aio.ServicerContext[GetClusterRequest, Cluster]",
    ) -> Cluster:
        await self._admit(context, TOPOLOGY)
        totals = self._service.index.totals()
        return Cluster(
            nodes=map(self._message, self._service.index.views()),
            gpus=totals.gpus,
            free_gpus=totals.free_gpus,
            unhealthy_gpus=totals.unhealthy_gpus,
        )

    async def get_node(
        self, request: GetNodeRequest, context: "grpc.aio.ServicerContext[GetNodeRequest, Node]"
    ) -> Node:
        await self._admit(context, f"{TOPOLOGY}/{request.node}")
        view = self._service.index.view(request.node)
        if view is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"node {request.node!r} does not exist, or has no GPUs"
            )
        return self._message(view)

    async def find_best_set(
        self,
        request: FindBestSetRequest,
        context: "grpc.aio.ServicerContext[FindBestSetRequest, BestSet]",
    ) -> BestSet:
        await self._admit(context, BEST_SET)
        try:
            answer = self._service.best_set(parse_query(_to_parameters(request)))
        except InvalidQuery as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return BestSet(
            sets=[
                ChosenSet(
                    node=each.node,
                    gpus=each.gpus,
                    uuids=each.uuids,
                    score=each.score,
                    bandwidth_gbps=each.bandwidth_gbps or 0.0,
                    starts=each.starts,
                )
                for each in answer.sets
            ],
            reason=answer.reason,
        )

    async def _admit(
        self, context: "grpc.aio.ServicerContext[_Request, _Reply]", path: str
    ) -> None:
        if self._authorizer is not None:
            metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
            try:
                await self._authorizer.require(metadata, path)
            except AccessDenied as error:
                code = _CODES.get(error.status, grpc.StatusCode.UNAVAILABLE)
                await context.abort(code, str(error))
        if not self._service.has_synced():
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "the caches are not complete yet: try again"
            )

    def _message(self, view: NodeView) -> Node:
        """The message of a view; it is kept until the view changes."""
        known = self._messages.get(view.node)
        if known is not None and known[0] is view:
            return known[1]
        message = _build_node(view)
        self._messages[view.node] = view, message
        return message


def _build_node(view: NodeView) -> Node:
    return Node(
        node=view.node,
        domains=dict(view.domains),
        free_gpus=view.free_gpus,
        gpus=map(_build_gpu, view.gpus),
        links=[Link(first=each.first, second=each.second, gbps=each.gbps) for each in view.links],
    )


def _build_gpu(view: GpuView) -> Gpu:
    return Gpu(
        index=view.index,
        healthy=view.healthy,
        free_milli=view.free_milli,
        uuid=view.uuid,
        pci=view.pci,
        product=view.product,
        memory_mib=view.memory_mib,
        architecture=view.architecture,
        numa=view.numa,
        pcie_switch=view.pcie_switch,
        port_gbps=view.port_gbps,
        reason=view.reason,
        mig_enabled=view.mig_enabled,
        occupied_slices=view.occupied_slices,
        instances=[
            Instance(uuid=each.uuid, profile=each.profile, start=each.start)
            for each in view.instances
        ],
    )


def _to_parameters(request: FindBestSetRequest) -> list[tuple[str, str]]:
    """The request as the parameters of a URL, so that both are checked by the same rules."""
    given = [
        ("gpus", request.gpus),
        ("preference", request.preference or "None"),
        ("architecture", request.architecture),
        ("minMemory", request.min_memory_mib),
        ("minBandwidth", request.min_bandwidth_gbps),
        ("profile", request.profile),
        ("perNode", request.per_node),
    ]
    return [(name, str(value)) for name, value in given] + [("model", m) for m in request.models]
