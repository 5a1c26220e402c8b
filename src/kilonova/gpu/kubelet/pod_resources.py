"""What pods have, as the kubelet itself reports it: the pod resources API."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio

from kilonova.gpu.kubelet.grpc.pod_resources_grpc import PodResourcesListerStub
from kilonova.gpu.kubelet.grpc.pod_resources_pb2 import (
    ListPodResourcesRequest,
    ListPodResourcesResponse,
)
from kilonova.kube.grpc import ClientSettings, GrpcClient
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

DeviceIds: TypeAlias = Mapping[tuple[str, str], frozenset[str]]
"""The kubelet's ids by container and resource."""
KubeletView: TypeAlias = Mapping[tuple[str, str], DeviceIds]
"""The active pods that the kubelet knows, by namespace and name, and the devices that they have."""

_DEADLINE_SECONDS = 5.0


class PodResources:
    """Reads the pod resources API."""

    def __init__(self, socket: Path) -> None:
        settings = ClientSettings(deadline=_DEADLINE_SECONDS, attempts=2)
        self._client = GrpcClient(f"unix:{socket}", settings=settings)

    async def read(self) -> KubeletView | None:
        """The pods of the kubelet; None if it does not answer."""
        try:
            stub = self._client.stub(PodResourcesListerStub)
            return parse_pod_resources(await stub.list(ListPodResourcesRequest()))
        except grpc.aio.AioRpcError as error:
            _log.warning("pod resources API does not answer", error=error.details())
            return None

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def parse_pod_resources(reply: ListPodResourcesResponse) -> KubeletView:
    """The reply as a value. Pure."""
    view: dict[tuple[str, str], DeviceIds] = {}
    for pod in reply.pod_resources:
        ids: dict[tuple[str, str], frozenset[str]] = {}
        for container in pod.containers:
            for devices in container.devices:
                key = container.name, devices.resource_name
                ids[key] = ids.get(key, frozenset()) | frozenset(devices.device_ids)
        view[pod.namespace, pod.name] = ids
    return view
