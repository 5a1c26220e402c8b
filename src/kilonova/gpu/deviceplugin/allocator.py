"""Answers `Allocate`: finds the container, and gives it its devices.

One request at a time. Before the kubelet is answered, the MIG instances exist, the CDI spec is
written, and the checkpoint has the holding: after a crash at any point, the same request gets the
same answer, and what has no holder is removed by `reconcile`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.cdi import CdiFolder, HostDriver, VisibleDevice, build_edits, qualified_name
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.deviceplugin.assignment import (
    parse_or_nothing,
    select_assigned,
    select_devices,
)
from kilonova.gpu.deviceplugin.matching import Candidate, KubeletRequest, find_container
from kilonova.gpu.deviceplugin.plugin_devices import PluginDevice, prefer_devices
from kilonova.gpu.deviceplugin.pods import NodePod, PodSource
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding, HoldingStore
from kilonova.gpu.kubelet.interfaces import (
    AllocationRefused,
    InstanceProvider,
    Instances,
    InventorySource,
)
from kilonova.gpu.kubelet.pod_resources import KubeletView
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_SEARCH_ATTEMPTS = 10
_SEARCH_PAUSE = 0.3


class PodSharing(Protocol):
    """Prepares what a pod with shares of GPUs needs, such as an MPS server."""

    async def prepare_pod(
        self, uid: str, assignments: Sequence[DeviceAssignment]
    ) -> ContainerEdits:
        """What its containers get in addition. Idempotent; may raise `GpuError` or
        `AllocationRefused`."""
        ...

    async def release_pod(self, uid: str) -> None:
        """The pod has ended. Nothing happens if it is unknown."""
        ...


class Grant(msgspec.Struct, frozen=True):
    """What a container gets."""

    env: Mapping[str, str]
    cdi_devices: tuple[str, ...]


class Allocator:
    """The devices of the node's containers. `read_view` is the pod resources API of the kubelet."""

    def __init__(
        self,
        inventory: InventorySource,
        pods: PodSource,
        instances: InstanceProvider,
        store: HoldingStore,
        cdi: CdiFolder,
        read_view: Callable[[], Awaitable[KubeletView | None]],
        *,
        driver: HostDriver | None = None,
        sharing: PodSharing | None = None,
        shares_per_gpu: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = inventory
        self._pods = pods
        self._instances = instances
        self._store = store
        self._cdi = cdi
        self._read_view = read_view
        self._driver = driver or HostDriver()
        self._sharing = sharing
        self.shares_per_gpu = shares_per_gpu
        self._sleep = sleep

    @property
    def inventory(self) -> NodeInventory:
        """The devices as last read."""
        return self._source.inventory

    def held_devices(self) -> frozenset[str]:
        """The UUIDs of GPUs that pods and claims have as a whole, or shares of."""
        return frozenset(
            each.device
            for holding in self._store.holdings
            for each in holding.devices
            if not each.assignment.profile and not each.is_admin
        )

    async def allocate(
        self, resource: str, ids: Sequence[str], plugin_devices: Sequence[PluginDevice] = ()
    ) -> Grant:
        """The devices for the container that the kubelet is admitting.

        `AllocationRefused` states why there are none; the pod then fails with that message.
        """
        request = KubeletRequest(resource, len(ids), frozenset(ids))
        async with self._store.lock:
            candidate, pods = await self._find(request, plugin_devices)
            pod, container = candidate.pod, candidate.container
            key = (pod.uid, container.name, resource)
            known = next((each for each in self._store.holdings if each.key == key), None)
            if known is not None:
                assignments = tuple(each.assignment for each in known.devices)
            else:
                assignments = select_devices(
                    self.inventory,
                    candidate,
                    request,
                    self._store.holdings,
                    pods,
                    self.shares_per_gpu,
                )
            found = await self._ensure(pod, assignments)
            holding = Holding(
                HolderKind.POD,
                pod.uid,
                pod.namespace,
                pod.name,
                _held_devices(self.inventory, assignments, found),
                container.name,
                resource,
                tuple(sorted(ids)),
            )
            edits = await self._record(pod, holding)
        _log.info(
            "devices allocated",
            pod=f"{pod.namespace}/{pod.name}",
            container=container.name,
            resource=resource,
            devices=",".join(map(str, assignments)),
        )
        env = dict(each.split("=", 1) for each in edits.env)
        return Grant(env, (qualified_name(holding.spec),))

    async def prefer(
        self,
        resource: str,
        plugin_devices: Sequence[PluginDevice],
        available: Sequence[str],
        required: Sequence[str],
        size: int,
    ) -> tuple[str, ...]:
        """The ids that the kubelet should pick for the container that it is admitting."""
        assigned: tuple[DeviceAssignment, ...] = ()
        async with self._store.lock:
            request = KubeletRequest(resource, size)
            try:
                candidate, _ = await self._find(request, plugin_devices)
                assigned = _assigned_or_nothing(candidate, resource)
            except AllocationRefused as error:
                _log.warning("no preference for devices", resource=resource, reason=str(error))
        return prefer_devices(plugin_devices, available, required, size, assigned)

    async def reconcile(self) -> None:
        """Take the devices from pods that have ended, and restore the specs of the others."""
        if not any(each.kind is HolderKind.POD for each in self._store.holdings):
            return
        async with self._store.lock:
            pods = await self._pods.list_pods(fresh=False)
            if self._ended(pods):
                # A cache may not have a pod yet that has its devices already.
                await self._release_ended(await self._pods.list_pods(fresh=True))

    async def release_ended(self) -> None:
        """Take the devices from pods that have ended, as the API server has them now."""
        async with self._store.lock:
            await self._release_ended(await self._pods.list_pods(fresh=True))

    async def restore(self) -> None:
        """After a start: specs and MIG instances of all pods that still hold devices, which may be
        gone since the machine was started again."""
        async with self._store.lock:
            pods = await self._pods.list_pods(fresh=True)
            await self._release_ended(pods)
            by_uid = {each.uid: each for each in pods}
            for holding in self._store.holdings:
                if holding.kind is HolderKind.POD:
                    await self._restore_holding(by_uid[holding.uid], holding)

    async def _find(
        self, request: KubeletRequest, plugin_devices: Sequence[PluginDevice]
    ) -> tuple[Candidate, Sequence[NodePod]]:
        """The container of a request, and the pods of the node. Waits a little: the kubelet may
        know of a pod before a cache does."""

        def list_preferred(candidate: Candidate) -> frozenset[str]:
            assigned = _assigned_or_nothing(candidate, request.resource)
            every = [each.id for each in plugin_devices]
            return frozenset(prefer_devices(plugin_devices, every, (), request.count, assigned))

        pods: Sequence[NodePod] = ()
        for attempt in range(_SEARCH_ATTEMPTS):
            if attempt:
                await self._sleep(_SEARCH_PAUSE)
            pods = await self._pods.list_pods(fresh=True)
            await self._release_ended(pods)
            view = await self._read_view()
            found = find_container(request, pods, self._store.holdings, view, list_preferred)
            if found is not None:
                return found, pods
        raise AllocationRefused(
            f"no pod on this node waits for {request.count} of {request.resource}: "
            f"{len(pods)} pods are bound to it"
        )

    async def _ensure(self, pod: NodePod, assignments: Sequence[DeviceAssignment]) -> Instances:
        """All MIG instances of the pod, so that those of its later containers are there, too."""
        wanted = dict.fromkeys((*parse_or_nothing(pod.devices), *assignments))
        held = [
            each.assignment
            for holding in self._store.holdings
            if holding.uid == pod.uid
            for each in holding.devices
        ]
        try:
            found = await self._instances.ensure_instances(
                pod.uid, tuple(dict.fromkeys((*held, *wanted)))
            )
        except (GpuError, AllocationRefused) as error:
            if not held:
                await self._instances.release_instances(pod.uid)
            raise AllocationRefused(f"{pod}: {error}") from error
        missing = [each for each in assignments if each.profile and each not in found]
        if missing:
            raise AllocationRefused(f"{pod}: MIG instance {missing[0]} was not created")
        return found

    async def _record(self, pod: NodePod, holding: Holding) -> ContainerEdits:
        """Write spec and checkpoint, or nothing."""
        is_new = not any(each.uid == pod.uid for each in self._store.holdings)
        try:
            edits = await self._write_spec(holding)
            await self._store.put(holding)
        except (OSError, GpuError, AllocationRefused) as error:
            if all(each.key != holding.key for each in self._store.holdings):
                await self._cdi.remove(holding.spec)
            if is_new:
                await self._release_pod(pod.uid)
            raise AllocationRefused(f"{pod}: {error}") from error
        return edits

    async def _write_spec(self, holding: Holding) -> ContainerEdits:
        edits = build_edits(_visible_devices(self.inventory, holding), self._driver)
        if self._sharing is not None:
            assignments = tuple(each.assignment for each in holding.devices)
            more = await self._sharing.prepare_pod(holding.uid, assignments)
            edits = edits.with_env(dict(each.split("=", 1) for each in more.env))
            edits = edits.with_mounts(more.mounts)
        name = holding.spec
        await self._cdi.write(name, {name: edits})
        return edits

    async def _restore_holding(self, pod: NodePod, holding: Holding) -> None:
        assignments = tuple(each.assignment for each in holding.devices)
        try:
            found = await self._ensure(pod, assignments)
            devices = _held_devices(self.inventory, assignments, found)
            restored = msgspec.structs.replace(holding, devices=devices)
            await self._write_spec(restored)
        except (GpuError, AllocationRefused) as error:
            _log.error("devices of a pod not restored", pod=str(pod), reason=str(error))
            return
        if restored != holding:
            await self._store.put(restored)

    async def _release_ended(self, pods: Sequence[NodePod]) -> None:
        ended = self._ended(pods)
        for holding in ended:
            await self._cdi.remove(holding.spec)
        for uid in dict.fromkeys(each.uid for each in ended):
            await self._release_pod(uid)
        await self._store.remove(ended)
        for holding in ended:
            _log.info("devices released", holder=str(holding), resource=holding.resource)

    async def _release_pod(self, uid: str) -> None:
        if self._sharing is not None:
            try:
                await self._sharing.release_pod(uid)
            except (GpuError, AllocationRefused) as error:
                # Other pods must not wait for it: the share's server is checked by itself.
                _log.error("share of a GPU not released", uid=uid, reason=str(error))
        await self._instances.release_instances(uid)

    def _ended(self, pods: Sequence[NodePod]) -> list[Holding]:
        alive = {each.uid for each in pods if not each.is_terminal}
        return [
            each
            for each in self._store.holdings
            if each.kind is HolderKind.POD and each.uid not in alive
        ]


def _held_devices(
    inventory: NodeInventory, assignments: Sequence[DeviceAssignment], found: Instances
) -> tuple[HeldDevice, ...]:
    uuids = {each.index: each.uuid for each in inventory.devices}
    lost = [str(each) for each in assignments if each.index not in uuids]
    if lost:
        raise AllocationRefused(f"the node has lost {', '.join(lost)}")
    return tuple(HeldDevice(uuids[each.index], each, found.get(each)) for each in assignments)


def _visible_devices(inventory: NodeInventory, holding: Holding) -> list[VisibleDevice]:
    devices = {each.uuid: each for each in inventory.devices}
    return [
        VisibleDevice(devices[each.device], each.instance)
        for each in holding.devices
        if each.device in devices
    ]


def _assigned_or_nothing(candidate: Candidate, resource: str) -> tuple[DeviceAssignment, ...]:
    if candidate.pod.devices is None:
        return ()
    try:
        return select_assigned(candidate, resource)
    except AllocationRefused:
        return ()
