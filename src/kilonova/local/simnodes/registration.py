"""Nodes and Leases of a simulated fleet: created, updated, renewed, deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from kilonova.api.gpu.annotations import AGENT, TOPOLOGY
from kilonova.api.nodes.kinds import NODE_KIND_LABEL, SIMULATED_NODE
from kilonova.catalog.resource_names import GPU
from kilonova.kube import AlreadyExists, BadRequest, Client, Invalid, KubeError, NotFound, Resource
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.kubelet_common.leases import (
    LEASE_NAMESPACE,
    LEASES,
    LeaseRenewer,
    build_lease,
)
from kilonova.local.kubelet_common.nodes import NODES
from kilonova.local.simnodes import objects
from kilonova.local.simnodes.fleet.model import FleetNode
from kilonova.local.simnodes.gpus.topology import build_topology_annotation, read_unhealthy_gpus
from kilonova.local.simnodes.lifecycle.descriptions import format_description
from kilonova.local.simnodes.lifecycle.node_objects import (
    FLEET_ANNOTATION,
    MACHINE_ANNOTATION,
    MACHINE_TYPE_LABEL,
)

T = TypeVar("T")
_MAX_CONCURRENT = 32
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


class _NodeInfo(msgspec.Struct, frozen=True):
    machine_id: str = msgspec.field(default="", name="machineID")


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    allocatable: dict[str, str] = {}
    conditions: tuple[_Condition, ...] = ()
    node_info: _NodeInfo = _NodeInfo()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _RegisteredObject(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_REGISTERED_NODES = NODES.as_type(_RegisteredObject)
_REGISTERED_LEASES = LEASES.as_type(_RegisteredObject)
_PODS = Resource("", "v1", "pods", "Pod", True, _RegisteredObject)


class NodeRegistration:
    """Maintains the fleet's Nodes and Leases. `heartbeat` is in seconds.

    Unless it keeps them, the claims of node agents that ran before are removed: no agent would
    make the MIG instances that pods wait for.
    """

    def __init__(
        self,
        client: Client,
        now: Callable[[], datetime],
        heartbeat: float,
        lease_renewer: LeaseRenewer,
        *,
        keeps_agent_claims: bool = True,
    ) -> None:
        self._client = client
        self._keeps_agent_claims = keeps_agent_claims
        self._lease_renewer = lease_renewer
        self._now = now
        self._heartbeat = heartbeat
        self.registered_count = 0
        """The number of registered machines."""

    async def register_nodes(self, fleet_nodes: Sequence[FleetNode]) -> None:
        """Create or update every Node of a fleet; returns when all exist."""
        nodes = {
            each.metadata.name: each for each in await self._list_registered(_REGISTERED_NODES)
        }
        leases = {each.metadata.name for each in await self._list_registered(_REGISTERED_LEASES)}
        groups = {shape.group.name: shape.group for shape in fleet_nodes}
        descriptions = {name: format_description(group) for name, group in groups.items()}

        async def persist(shape: FleetNode) -> None:
            description = descriptions[shape.group.name]
            await self._register_node(
                shape, description, nodes.get(shape.name), shape.name in leases
            )
            self.registered_count += 1

        await _run_concurrently(fleet_nodes, persist)

    async def remove_other_nodes(self, names: Collection[str]) -> None:
        """Delete the nodes of an earlier fleet that are not in `names`, with their pods."""
        removed = {
            node.metadata.name
            for node in await self._list_registered(_REGISTERED_NODES)
            if node.metadata.labels.get(NODE_KIND_LABEL) == SIMULATED_NODE and _is_of_fleet(node)
        }.difference(names)
        if not removed:
            return

        async def delete_node(name: str) -> None:
            await self._delete(NODES, name, None)
            await self._delete(LEASES, name, LEASE_NAMESPACE)

        async def delete_pod(pod: _RegisteredObject) -> None:
            await self._delete(_PODS, pod.metadata.name, pod.metadata.namespace)

        await _run_concurrently(sorted(removed), delete_node)
        # Last, so that no pod can be bound there any more.
        pods = [pod for pod in await self._list_registered(_PODS) if pod.spec.node_name in removed]
        await _run_concurrently(pods, delete_pod)
        _log.info(
            "removed nodes that are no longer in the fleet", nodes=len(removed), pods=len(pods)
        )

    async def renew_leases(self, list_nodes: Callable[[], Sequence[str]]) -> None:
        """Renew the Lease of every node once per heartbeat; `list_nodes` names those that send one.

        Renewals are spread: about every second a part of the nodes is due, and is renewed together.
        """
        loop = asyncio.get_running_loop()
        due, batch = loop.time(), 0
        while True:
            batches = max(1, min(len(list_nodes()), round(self._heartbeat)))
            due = max(due + self._heartbeat / batches, loop.time())
            await asyncio.sleep(due - loop.time())
            batch = (batch + 1) % batches
            names = list_nodes()[batch::batches]
            missing = await self._lease_renewer.renew(names, self._now())
            for name in sorted({*missing}.intersection(list_nodes())) if missing else ():
                await self._recreate_lease(name)

    async def create_lease(self, name: str, node_uid: str) -> None:
        """Create the Lease of a launched machine, or renew it."""
        await self._create_lease(name, node_uid)

    async def delete_lease(self, name: str) -> None:
        """Delete the Lease of a machine that is gone."""
        await self._delete(LEASES, name, LEASE_NAMESPACE)

    async def _recreate_lease(self, name: str) -> None:
        try:
            await self._create_lease(name)
        except KubeError as error:
            _log.warning("lease creation failed", node=name, error=str(error))

    async def _list_registered(
        self, resource: Resource[_RegisteredObject]
    ) -> list[_RegisteredObject]:
        while True:
            try:
                return (await self._client.list(resource)).items
            except KubeError as error:
                await _wait_before_retry(resource.plural, error)

    async def _register_node(
        self,
        node: FleetNode,
        description: str,
        existing: _RegisteredObject | None,
        has_lease: bool,
    ) -> None:
        while True:
            try:
                await self._create_or_update_node(node, description, existing)
                if not has_lease:
                    await self._create_lease(node.name)
                return
            except (Invalid, BadRequest):
                raise  # a conflict on resourceVersion would repeat forever
            except KubeError as error:
                await _wait_before_retry(node.name, error)

    async def _create_or_update_node(
        self, node: FleetNode, description: str, existing: _RegisteredObject | None
    ) -> None:
        if existing is None:
            try:
                await self._client.create(NODES, objects.build_node(node, description, self._now()))
                return
            except AlreadyExists:
                existing = await self._client.get(_REGISTERED_NODES, node.name)
        if node.group.boot and not existing.status.node_info.machine_id:
            return  # it is still booting
        lost = read_unhealthy_gpus(
            existing.metadata.annotations
        )  # whether they have ended is checked later
        labels = objects.build_node_labels(node)
        annotations: dict[str, str | None] = {**objects.build_fleet_annotations(node, description)}
        has_agent = self._keeps_agent_claims and AGENT in existing.metadata.annotations
        if not has_agent:
            annotations |= {
                TOPOLOGY: build_topology_annotation(node.name, node.group.gpu, lost),
                AGENT: None,
            }
        present = existing.metadata.annotations
        is_changed = any(present.get(name) != value for name, value in annotations.items())
        if is_changed or labels.items() - existing.metadata.labels.items():
            metadata = {"labels": labels, "annotations": annotations}
            await self._client.patch(NODES, node.name, {"metadata": metadata})
        status = objects.build_node_status(node, self._now(), lost)
        ready = any((c.type, c.status) == ("Ready", "True") for c in existing.status.conditions)
        if has_agent:  # it publishes the GPUs that are left
            status["allocatable"].pop(GPU, None)
        published = existing.status.allocatable
        if not ready or status["allocatable"].items() - published.items():
            await self._client.patch(NODES, node.name, {"status": status}, subresource="status")

    async def _create_lease(self, name: str, node_uid: str = "") -> None:
        lease = build_lease(name, self._now(), self._heartbeat, node_uid)
        try:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)
        except AlreadyExists:
            spec = {"spec": lease["spec"]}
            await self._client.patch(LEASES, name, spec, LEASE_NAMESPACE)

    async def _delete(self, resource: Resource[Any], name: str, namespace: str | None) -> None:
        try:
            await self._client.delete(resource, name, namespace, grace_period_seconds=0)
        except NotFound:
            return


def _is_of_fleet(node: _RegisteredObject) -> bool:
    """Whether a fleet created the Node; earlier versions did not record it."""
    annotations = node.metadata.annotations
    described = MACHINE_ANNOTATION in annotations or MACHINE_TYPE_LABEL in node.metadata.labels
    return FLEET_ANNOTATION in annotations or not described


async def _run_concurrently(items: Sequence[T], action: Callable[[T], Awaitable[None]]) -> None:
    """Run an action on all items, with bounded concurrency."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await action(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_MAX_CONCURRENT):
            group.create_task(work())


async def _wait_before_retry(what: str, error: KubeError) -> None:
    _log.warning("node registration failed, will retry", what=what, error=str(error))
    await asyncio.sleep(_RETRY_SECONDS)
