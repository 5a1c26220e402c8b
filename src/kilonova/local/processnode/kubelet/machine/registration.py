"""Registration and heartbeats of this machine's Node."""

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, KubeError, NotFound
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.clock import Clock
from kilonova.local.kubelet_common.leases import LEASE_NAMESPACE, LEASES, build_lease
from kilonova.local.kubelet_common.nodes import NODES
from kilonova.local.processnode.cri.api import Capabilities
from kilonova.local.processnode.kubelet.machine.capabilities import build_capability_labels
from kilonova.local.processnode.kubelet.machine.gpus import (
    InstalledGpus,
    build_feature_labels,
    build_topology_annotation,
)
from kilonova.local.processnode.kubelet.machine.info import MachineInfo, read_node_pressures
from kilonova.local.processnode.kubelet.machine.node_object import (
    build_node,
    build_node_conditions,
    build_node_labels,
    build_node_status,
)

_LEASE_RENEW_PERIOD = 10.0
_STATUS_REPORT_PERIOD = 300.0
_RETRY_SECONDS = 1.0
_FEATURE_PREFIX = "nvidia.com/"
_log = get_logger(__name__)


class KubeletRegistration:
    """Maintains the Node and the Lease of this machine."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        machine: MachineInfo,
        gpus: InstalledGpus,
        capacity: Mapping[str, str],
        network: IPv4Network,
        data: Path,
    ) -> None:
        self._client = client
        self._clock = clock
        self._machine = machine
        self._capacity = capacity
        self._network = network
        self._data = data
        self._labels: Mapping[str, str] = {
            **build_node_labels(machine),
            **build_feature_labels(gpus),
        }
        self._annotations = build_topology_annotation(gpus)
        self._conditions: list[JsonObject] = []
        self._last_report = 0.0
        self._shutting_down = False

    async def register(self) -> None:
        """Create or update the Node; retried until it succeeds."""
        while True:
            try:
                await self._register()
                return
            except KubeError as error:
                _log.warning("node registration failed, will retry", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def publish_capabilities(self, capabilities: Capabilities) -> None:
        """Label the Node with what pods can have here."""
        labels = build_capability_labels(capabilities)
        self._labels = {**self._labels, **labels}
        try:
            await self._client.patch(
                NODES, self._machine.name, {"metadata": {"labels": {**labels}}}
            )
        except KubeError:
            await self.register()

    async def run_heartbeat(self) -> None:
        """Renew the Lease and report conditions, until cancelled."""
        while True:
            await asyncio.sleep(_LEASE_RENEW_PERIOD)
            try:
                await self._renew_lease()
                await self._report_conditions()
            except NotFound:
                await self.register()
            except KubeError as error:
                _log.warning("lease renewal failed", node=self._machine.name, error=str(error))

    async def report_shutdown(self) -> None:
        """Report the node as not ready: it is shutting down."""
        self._shutting_down = True
        try:
            await self._report_conditions()
        except KubeError as error:
            _log.warning("node shutdown not reported", error=str(error))

    async def _register(self) -> None:
        name = self._machine.name
        try:
            desired = build_node(name, self._labels, self._annotations, self._network)
            node = await self._client.create(NODES, desired)
        except AlreadyExists:
            before = await self._client.get(NODES, name)
            labels = {**_drop_feature_labels(before), **self._labels}
            annotations = {TOPOLOGY: None, **self._annotations}
            metadata: JsonObject = {"labels": labels, "annotations": annotations}
            node = await self._client.patch(NODES, name, {"metadata": metadata})
        self._conditions = nested_objects(node, "status", "conditions")
        self._conditions = self._current_conditions()
        status = build_node_status(self._machine, self._capacity, self._conditions)
        for amounts in ("capacity", "allocatable"):
            status[amounts] = {**_drop_gpus(node, amounts), **self._capacity}
        await self._client.patch(NODES, name, {"status": status}, subresource="status")
        self._last_report = self._clock.monotonic()
        await self._renew_lease()

    async def _report_conditions(self) -> None:
        """Write conditions when they changed, and periodically."""
        found = self._current_conditions()
        changed = [_type_and_status(each) for each in found] != [
            _type_and_status(each) for each in self._conditions
        ]
        if not changed and self._clock.monotonic() - self._last_report < _STATUS_REPORT_PERIOD:
            return
        body = {"status": {"conditions": found}}
        await self._client.patch(NODES, self._machine.name, body, subresource="status")
        self._conditions = found
        self._last_report = self._clock.monotonic()

    def _current_conditions(self) -> list[JsonObject]:
        pressures = read_node_pressures(self._data)
        return build_node_conditions(
            pressures, self._clock.now(), self._conditions, shutting_down=self._shutting_down
        )

    async def _renew_lease(self) -> None:
        lease = build_lease(self._machine.name, self._clock.now(), _LEASE_RENEW_PERIOD)
        try:
            await self._client.patch(
                LEASES, self._machine.name, {"spec": nested_object(lease, "spec")}, LEASE_NAMESPACE
            )
        except NotFound:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)


def _drop_feature_labels(node: JsonObject) -> dict[str, str | None]:
    """A patch without the GPUs that the machine had when it registered before."""
    labels = nested_object(node, "metadata", "labels")
    return {name: None for name in labels if name.startswith(_FEATURE_PREFIX)}


def _drop_gpus(node: JsonObject, amounts: str) -> JsonObject:
    """A merge patch without the GPU resources of an earlier start: instances may be gone since, and
    a GPU in MIG mode is no longer given as a whole."""
    before = nested_object(node, "status", amounts)
    return {name: None for name in before if name.startswith(_FEATURE_PREFIX)}


def _type_and_status(condition: JsonObject) -> tuple[str, str]:
    return condition["type"], condition["status"]
