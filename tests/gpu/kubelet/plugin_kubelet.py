"""A kubelet as device plugins see it, over real unix sockets.

It does what the kubelet's device manager does (pkg/kubelet/cm/devicemanager): it accepts
registrations, watches devices, admits one pod after the other and one container after the other,
asks for a preference unless every free device is needed, and keeps its allocations over a restart,
at which it empties the folder of the plugins. It serves the pod resources API.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from kilonova.gpu.deviceplugin.pods import ContainerKind, NodePod
from kilonova.gpu.kubelet.grpc import device_plugin_pb2 as dp
from kilonova.gpu.kubelet.grpc import pod_resources_pb2 as pr
from kilonova.gpu.kubelet.grpc.device_plugin_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    registration_service,
)
from kilonova.gpu.kubelet.grpc.pod_resources_grpc import (
    PodResourcesListerServicer,
    pod_resources_lister_service,
)
from kilonova.gpu.kubelet.paths import KubeletPaths
from kilonova.kube.grpc import GrpcServer

PATIENCE = 60.0


@dataclass
class Endpoint:
    """A registered plugin."""

    channel: grpc.aio.Channel
    stub: DevicePluginStub
    task: asyncio.Task[None]
    devices: dict[str, str] = field(default_factory=dict[str, str])
    """Health by id."""


class PluginKubelet(RegistrationServicer, PodResourcesListerServicer):
    """The kubelet of one node."""

    def __init__(self, paths: KubeletPaths, *, serves_pod_resources: bool = True) -> None:
        self.paths = paths
        self.serves_pod_resources = serves_pod_resources
        self.endpoints: dict[str, Endpoint] = {}
        self.registrations: list[str] = []
        self.known: list[NodePod] = []
        """Active pods, also the one that is being admitted."""
        self.allocations: dict[tuple[str, str, str], list[str]] = {}
        """Ids by uid, container and resource."""
        self.answers: dict[tuple[str, str], dict[str, str]] = {}
        """Environment variables by uid and container."""
        self.cdi: dict[tuple[str, str], list[str]] = {}
        self._changed = asyncio.Condition()
        self._servers: list[tuple[GrpcServer, asyncio.Task[None]]] = []

    async def start(self) -> None:
        folder = self.paths.device_plugins
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        self.paths.pod_resources.parent.mkdir(parents=True, exist_ok=True)
        await self._serve(registration_service(self), self.paths.registration)
        if self.serves_pod_resources:
            await self._serve(pod_resources_lister_service(self), self.paths.pod_resources)

    async def stop(self) -> None:
        for endpoint in self.endpoints.values():
            await _close(endpoint)
        self.endpoints.clear()
        for server, task in self._servers:
            server.stop()
            await task
        self._servers.clear()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def wait_for(self, resource: str, healthy: int, total: int | None = None) -> Endpoint:
        """Until that many devices of a resource are healthy."""

        def is_there() -> bool:
            endpoint = self.endpoints.get(resource)
            if endpoint is None:
                return False
            counts = list(endpoint.devices.values())
            return counts.count("Healthy") == healthy and total in (None, len(counts))

        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(is_there)
        return self.endpoints[resource]

    async def admit(self, pod: NodePod) -> None:
        """Allocate for all containers; a failure rejects the pod, and raises."""
        self.known.append(pod)
        try:
            for container in pod.containers:
                for resource, count in container.amounts.items():
                    await self._allocate(pod, container.name, resource, count)
        except grpc.aio.AioRpcError:
            self.forget(pod)
            raise

    def forget(self, pod: NodePod) -> None:
        """The pod has ended."""
        self.known.remove(pod)
        for key in [key for key in self.allocations if key[0] == pod.uid]:
            del self.allocations[key]

    async def _allocate(self, pod: NodePod, container: str, resource: str, count: int) -> None:
        if (pod.uid, container, resource) in self.allocations:
            return  # from before a restart
        endpoint = self.endpoints[resource]
        init = {each.name for each in pod.containers if each.kind is ContainerKind.INIT}
        reusable = [
            id
            for (uid, name, kind), ids in self.allocations.items()
            if (uid, kind) == (pod.uid, resource) and name in init
            for id in ids
        ]
        used = {
            id for (_, _, kind), ids in self.allocations.items() if kind == resource for id in ids
        }
        free = [id for id, health in endpoint.devices.items() if health == "Healthy"]
        free = sorted(id for id in free if id not in used)
        chosen = list(dict.fromkeys(reusable))[:count]
        needed = count - len(chosen)
        if needed < len(free):
            request = dp.PreferredAllocationRequest()
            request.container_requests.add(
                available_device_ids=[*chosen, *free],
                must_include_device_ids=chosen,
                allocation_size=count,
            )
            reply = await endpoint.stub.get_preferred_allocation(request)
            preferred = [i for i in reply.container_responses[0].device_ids if i in free]
            chosen += preferred[:needed]
        chosen += [id for id in free if id not in chosen][: count - len(chosen)]
        request = dp.AllocateRequest()
        request.container_requests.add(device_ids=chosen)
        reply = (await endpoint.stub.allocate(request)).container_responses[0]
        self.answers[pod.uid, container] = dict(reply.envs)
        self.cdi[pod.uid, container] = [each.name for each in reply.cdi_devices]
        self.allocations[pod.uid, container, resource] = chosen

    async def register(self, request: dp.RegisterRequest, context: Any) -> dp.Empty:
        assert request.version == "v1beta1"
        resource = request.resource_name
        old = self.endpoints.pop(resource, None)
        if old is not None:
            await _close(old)
        channel = grpc.aio.insecure_channel(
            f"unix:{self.paths.device_plugins / request.endpoint}",
            (("grpc.use_local_subchannel_pool", 1),),
        )
        stub = DevicePluginStub(channel)
        options = await stub.get_device_plugin_options(dp.Empty())
        assert options.get_preferred_allocation_available
        endpoint = Endpoint(channel, stub, asyncio.create_task(self._watch(resource, stub)))
        self.endpoints[resource] = endpoint
        self.registrations.append(resource)
        return dp.Empty()

    async def list(
        self, request: pr.ListPodResourcesRequest, context: Any
    ) -> pr.ListPodResourcesResponse:
        response = pr.ListPodResourcesResponse()
        for pod in self.known:
            listed = response.pod_resources.add(name=pod.name, namespace=pod.namespace)
            for container in pod.containers:
                if container.kind is not ContainerKind.INIT:
                    entry = listed.containers.add(name=container.name)
                    for (uid, name, resource), ids in self.allocations.items():
                        if (uid, name) == (pod.uid, container.name):
                            entry.devices.add(resource_name=resource, device_ids=ids)
        return response

    async def _watch(self, resource: str, stub: DevicePluginStub) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for reply in stub.list_and_watch(dp.Empty()):
                await self._set_devices(resource, {each.id: each.health for each in reply.devices})
        # The stream has ended: no device of the plugin may be used.
        if resource in self.endpoints and self.endpoints[resource].stub is stub:
            lost = dict.fromkeys(self.endpoints[resource].devices, "Unhealthy")
            await self._set_devices(resource, lost)

    async def _set_devices(self, resource: str, devices: dict[str, str]) -> None:
        async with self._changed:
            self.endpoints[resource].devices = devices
            self._changed.notify_all()

    async def _serve(self, service: Any, socket: Any) -> None:
        server = GrpcServer("kubelet", [service], f"unix:{socket}", grace=0.1)
        server.bind()
        self._servers.append((server, asyncio.create_task(server.run())))


async def _close(endpoint: Endpoint) -> None:
    endpoint.task.cancel()
    await endpoint.channel.close()


@asynccontextmanager
async def running_kubelet(paths: KubeletPaths, **options: Any) -> AsyncGenerator[PluginKubelet]:
    kubelet = PluginKubelet(paths, **options)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()
