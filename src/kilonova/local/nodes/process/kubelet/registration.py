"""This machine in the API: registered, and heard of every few seconds."""

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, KubeError, NotFound
from kilonova.kube.logging import get_logger
from kilonova.local.clock import Clock
from kilonova.local.kinds.walk import objects, part
from kilonova.local.nodes.objects import lease_object
from kilonova.local.nodes.process.kubelet.abilities import ability_labels
from kilonova.local.nodes.process.kubelet.machinefacts import MachineFacts, read_pressures
from kilonova.local.nodes.process.kubelet.nodeobject import (
    node_conditions,
    node_labels,
    node_object,
    node_status,
)
from kilonova.local.nodes.process.runtime import Capabilities
from kilonova.local.nodes.registration import LEASE_NAMESPACE, LEASES, NODES

_HEARTBEAT = 10.0
_REPORT = 300.0
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class NodeRegistration:
    """Keeps the Node and the Lease of this machine."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        facts: MachineFacts,
        network: IPv4Network,
        data: Path,
    ) -> None:
        self._client = client
        self._clock = clock
        self._facts = facts
        self._network = network
        self._data = data
        self._labels: Mapping[str, str] = node_labels(facts)
        self._conditions: list[JsonObject] = []
        self._reported = 0.0
        self._leaving = False

    async def register(self) -> None:
        """Be in the API, as this machine is now."""
        while True:
            try:
                await self._register()
                return
            except KubeError as error:
                _log.warning("could not register, will try again", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def tell_abilities(self, found: Capabilities) -> None:
        """Label the Node with what its pods can have."""
        told = ability_labels(found)
        self._labels = {**self._labels, **told}
        try:
            await self._client.patch(NODES, self._facts.name, {"metadata": {"labels": {**told}}})
        except KubeError:
            await self.register()

    async def keep_alive(self) -> None:
        """Renew the Lease, and say how the machine is doing, until cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT)
            try:
                await self._renew()
                await self._report()
            except NotFound:
                await self.register()
            except KubeError as error:
                _log.warning("could not renew", node=self._facts.name, error=str(error))

    async def leave(self) -> None:
        """Take no more pods: the machine is about to stop."""
        self._leaving = True
        try:
            await self._report()
        except KubeError as error:
            _log.warning("could not say that the node stops", error=str(error))

    async def _register(self) -> None:
        name = self._facts.name
        try:
            wanted = node_object(name, self._labels, self._network)
            node = await self._client.create(NODES, wanted)
        except AlreadyExists:
            labels: JsonObject = {"metadata": {"labels": {**self._labels}}}
            node = await self._client.patch(NODES, name, labels)
        self._conditions = objects(node, "status", "conditions")
        self._conditions = self._now()
        status = node_status(self._facts, self._conditions)
        await self._client.patch(NODES, name, {"status": status}, subresource="status")
        self._reported = self._clock.monotonic()
        await self._renew()

    async def _report(self) -> None:
        """Write conditions that changed, and all of them now and then."""
        found = self._now()
        changed = [_essence(each) for each in found] != [
            _essence(each) for each in self._conditions
        ]
        if not changed and self._clock.monotonic() - self._reported < _REPORT:
            return
        body = {"status": {"conditions": found}}
        await self._client.patch(NODES, self._facts.name, body, subresource="status")
        self._conditions = found
        self._reported = self._clock.monotonic()

    def _now(self) -> list[JsonObject]:
        pressures = read_pressures(self._data)
        return node_conditions(
            pressures, self._clock.now(), self._conditions, leaving=self._leaving
        )

    async def _renew(self) -> None:
        lease = lease_object(self._facts.name, self._clock.now(), _HEARTBEAT)
        try:
            await self._client.patch(
                LEASES, self._facts.name, {"spec": part(lease, "spec")}, LEASE_NAMESPACE
            )
        except NotFound:
            await self._client.create(LEASES, lease, LEASE_NAMESPACE)


def _essence(condition: JsonObject) -> tuple[str, str]:
    return condition["type"], condition["status"]
