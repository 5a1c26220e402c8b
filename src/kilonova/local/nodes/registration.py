"""Nodes and Leases of a simulated fleet: made, brought up to date, renewed, taken away.

Leases are renewed by a few tasks, each in charge of its share of the fleet and spreading it
evenly over the heartbeat; those that come due together are committed together.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

import msgspec

from kilonova.kube import AlreadyExists, BadRequest, Client, Invalid, KubeError, NotFound, Resource
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import plain
from kilonova.local.nodes import objects
from kilonova.local.nodes.fleet import NodeShape
from kilonova.local.nodes.machine import Machine

NODES = plain("", "v1", "nodes", "Node", False)
LEASES = plain("coordination.k8s.io", "v1", "leases", "Lease", True)
LEASE_NAMESPACE = "kube-node-lease"

_AT_ONCE = 32
_RENEWERS = 8
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[_Condition, ...] = ()


class _Known(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()


_KNOWN_NODES = NODES.as_type(_Known)
_KNOWN_LEASES = LEASES.as_type(_Known)
_PODS = Resource("", "v1", "pods", "Pod", True, _Known)


class Registration:
    """Keeps the fleet's Nodes and Leases. `heartbeat` is in seconds."""

    def __init__(self, client: Client, now: Callable[[], datetime], heartbeat: float) -> None:
        self._client = client
        self._now = now
        self._heartbeat = heartbeat

    async def register(self, machines: Sequence[Machine]) -> None:
        """Make every node, or bring it up to date; return when all are there."""
        nodes = {each.metadata.name: each for each in await self._known(_KNOWN_NODES)}
        leases = {each.metadata.name for each in await self._known(_KNOWN_LEASES)}
        shapes = iter([machine.shape for machine in machines])

        async def work() -> None:
            for shape in shapes:
                await self._persist(shape, nodes.get(shape.name), shape.name in leases)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(work())

    async def retire_others(self, names: Collection[str]) -> None:
        """Take away simulated nodes that are not among `names`, with their pods."""
        for node in await self._known(_KNOWN_NODES):
            name = node.metadata.name
            if node.metadata.labels.get(objects.NODE_KIND) != "sim" or name in names:
                continue
            for pod in (await self._client.list(_PODS, fields=f"spec.nodeName={name}")).items:
                await self._delete(_PODS, pod.metadata.name, pod.metadata.namespace)
            await self._delete(NODES, name, None)
            await self._delete(LEASES, name, LEASE_NAMESPACE)
            _log.info("removed a node that the fleet no longer has", node=name)

    async def keep_alive(self, machines: Sequence[Machine]) -> None:
        """Renew every Lease once per heartbeat, but those of machines that are out."""
        async with asyncio.TaskGroup() as group:
            for number in range(min(_RENEWERS, len(machines))):
                group.create_task(self._renew_in_turn(machines[number::_RENEWERS]))

    async def _renew_in_turn(self, machines: Sequence[Machine]) -> None:
        loop = asyncio.get_running_loop()
        pause = self._heartbeat / len(machines)
        due = loop.time()
        for machine in cycle(machines):
            due = max(due + pause, loop.time())
            await asyncio.sleep(due - loop.time())
            if machine.out:
                continue
            try:
                await self._renew(machine.shape.name)
            except KubeError as error:
                _log.warning("could not renew", node=machine.shape.name, error=str(error))

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
        labels = objects.node_labels(shape)
        if labels.items() - known.metadata.labels.items():
            await self._client.patch(NODES, shape.name, {"metadata": {"labels": labels}})
        status = objects.node_status(shape, self._now(), ready=True)
        ready = any((c.type, c.status) == ("Ready", "True") for c in known.status.conditions)
        if not ready or known.status.allocatable != status["allocatable"]:
            await self._client.patch(NODES, shape.name, {"status": status}, subresource="status")

    async def _make_lease(self, name: str) -> None:
        lease = objects.lease_object(name, self._now(), self._heartbeat)
        try:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)
        except AlreadyExists:
            await self._renew(name)

    async def _renew(self, name: str) -> None:
        spec = objects.lease_object(name, self._now(), self._heartbeat)["spec"]
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            await self._make_lease(name)

    async def _delete(self, resource: Resource[Any], name: str, namespace: str | None) -> None:
        try:
            await self._client.delete(resource, name, namespace, grace=0)
        except NotFound:
            return


async def _pause(what: str, error: KubeError) -> None:
    _log.warning("could not register, will try again", what=what, error=str(error))
    await asyncio.sleep(_RETRY_SECONDS)
