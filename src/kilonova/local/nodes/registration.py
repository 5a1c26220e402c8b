"""Nodes and Leases of a simulated fleet: made, brought up to date, renewed, taken away."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any, TypeVar

import msgspec

from kilonova.api.gpus import TOPOLOGY
from kilonova.kube import AlreadyExists, BadRequest, Client, Invalid, KubeError, NotFound, Resource
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import plain
from kilonova.local.nodes import objects
from kilonova.local.nodes.fleet import NodeShape
from kilonova.local.nodes.heartbeats import LEASE_NAMESPACE, LEASES, Heartbeats
from kilonova.local.nodes.machine import Machine
from kilonova.local.nodes.topologies import topology_annotation, unhealthy_gpus

T = TypeVar("T")
NODES = plain("", "v1", "nodes", "Node", False)
_AT_ONCE = 32
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[_Condition, ...] = ()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Known(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_KNOWN_NODES = NODES.as_type(_Known)
_KNOWN_LEASES = LEASES.as_type(_Known)
_PODS = Resource("", "v1", "pods", "Pod", True, _Known)


class Registration:
    """Keeps the fleet's Nodes and Leases. `heartbeat` is in seconds."""

    def __init__(
        self,
        client: Client,
        now: Callable[[], datetime],
        heartbeat: float,
        heartbeats: Heartbeats,
    ) -> None:
        self._client = client
        self._heartbeats = heartbeats
        self._now = now
        self._heartbeat = heartbeat
        self.done = 0
        """How many machines were registered."""

    async def register(self, machines: Sequence[Machine]) -> None:
        """Make every node, or bring it up to date; return when all are there."""
        nodes = {each.metadata.name: each for each in await self._known(_KNOWN_NODES)}
        leases = {each.metadata.name for each in await self._known(_KNOWN_LEASES)}

        async def persist(shape: NodeShape) -> None:
            await self._persist(shape, nodes.get(shape.name), shape.name in leases)
            self.done += 1

        await _for_each([machine.shape for machine in machines], persist)

    async def retire_others(self, names: Collection[str]) -> None:
        """Take away simulated nodes that are not among `names`, with their pods."""
        gone = {
            node.metadata.name
            for node in await self._known(_KNOWN_NODES)
            if node.metadata.labels.get(objects.NODE_KIND) == "sim"
        }.difference(names)
        if not gone:
            return

        async def delete_node(name: str) -> None:
            await self._delete(NODES, name, None)
            await self._delete(LEASES, name, LEASE_NAMESPACE)

        async def delete_pod(pod: _Known) -> None:
            await self._delete(_PODS, pod.metadata.name, pod.metadata.namespace)

        await _for_each(sorted(gone), delete_node)
        # Now that nobody can be placed there any more.
        pods = [pod for pod in await self._known(_PODS) if pod.spec.node_name in gone]
        await _for_each(pods, delete_pod)
        _log.info("removed nodes that the fleet no longer has", nodes=len(gone), pods=len(pods))

    async def keep_alive(self, machines: Sequence[Machine]) -> None:
        """Renew every Lease once per heartbeat, but those of machines that are out.

        The fleet takes turns: in each second or so some of them are due, and are renewed together.
        """
        loop = asyncio.get_running_loop()
        turns = max(1, min(len(machines), round(self._heartbeat)))
        pause = self._heartbeat / turns
        due = loop.time()
        for turn in cycle(range(turns)):
            due = max(due + pause, loop.time())
            await asyncio.sleep(due - loop.time())
            names = [each.shape.name for each in machines[turn::turns] if not each.out]
            for name in await self._heartbeats.renew(names, self._now()):
                await self._make_lost_lease(name)

    async def _make_lost_lease(self, name: str) -> None:
        try:
            await self._make_lease(name)
        except KubeError as error:
            _log.warning("could not make a lease", node=name, error=str(error))

    async def _known(self, resource: Resource[_Known]) -> list[_Known]:
        while True:
            try:
                return (await self._client.list(resource)).items
            except KubeError as error:
                await _pause(resource.plural, error)

    async def _persist(self, shape: NodeShape, known: _Known | None, leased: bool) -> None:
        while True:
            try:
                await self._make(shape, known)
                if not leased:
                    await self._make_lease(shape.name)
                return
            except (Invalid, BadRequest):
                raise  # it would be refused for ever
            except KubeError as error:
                await _pause(shape.name, error)

    async def _make(self, shape: NodeShape, known: _Known | None) -> None:
        if known is None:
            try:
                await self._client.create(NODES, objects.node_object(shape, self._now()))
                return
            except AlreadyExists:
                known = await self._client.get(_KNOWN_NODES, shape.name)
        lost = unhealthy_gpus(known.metadata.annotations)  # whether they still are, is seen later
        labels, topology = objects.node_labels(shape), topology_annotation(shape.group.gpu, lost)
        told = known.metadata.annotations.get(TOPOLOGY)
        if labels.items() - known.metadata.labels.items() or topology != told:
            metadata = {"labels": labels, "annotations": {TOPOLOGY: topology}}
            await self._client.patch(NODES, shape.name, {"metadata": metadata})
        status = objects.node_status(shape, self._now(), lost)
        ready = any((c.type, c.status) == ("Ready", "True") for c in known.status.conditions)
        if not ready or known.status.allocatable != status["allocatable"]:
            await self._client.patch(NODES, shape.name, {"status": status}, subresource="status")

    async def _make_lease(self, name: str) -> None:
        lease = objects.lease_object(name, self._now(), self._heartbeat)
        try:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)
        except AlreadyExists:
            spec = {"spec": lease["spec"]}
            await self._client.patch(LEASES, name, spec, LEASE_NAMESPACE)

    async def _delete(self, resource: Resource[Any], name: str, namespace: str | None) -> None:
        try:
            await self._client.delete(resource, name, namespace, grace=0)
        except NotFound:
            return


async def _for_each(items: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Act on all of them, some at the same time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


async def _pause(what: str, error: KubeError) -> None:
    _log.warning("could not register, will try again", what=what, error=str(error))
    await asyncio.sleep(_RETRY_SECONDS)
