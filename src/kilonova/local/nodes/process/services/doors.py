"""Opens and closes the doors of Services, and says where they are.

A door that cannot be opened is told of in a Warning event on its Service, with another way. One
whose port somebody else has is tried again now and then; the others wait for a change.
"""

import errno
import os
from collections.abc import Collection

from kilonova.kube import Client, Controller, NotFound, Reflector, Result, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.nodes.process.services.forwarder import OpenDoor
from kilonova.local.nodes.process.services.objects import (
    SERVICES,
    EndpointSlice,
    Ingress,
    Service,
)
from kilonova.local.nodes.process.services.routing import (
    Door,
    Place,
    doors_of,
    is_balanced,
    mirrored,
)
from kilonova.local.nodes.process.services.table import RouteTable

_TRY_AGAIN_SECONDS = 30.0
_PRIVILEGED = 1024


class Doors:
    """All doors. `run` is that of a part of the cluster; when it ends, all connections do."""

    name = "doors of services"

    def __init__(
        self,
        client: Client,
        services: Reflector[Service],
        slices: Reflector[EndpointSlice],
        table: RouteTable,
        events: Recorder,
    ) -> None:
        self._client = client
        self._services = services
        self._table = table
        self._events = events
        self._open: dict[Key, dict[Place, OpenDoor]] = {}
        self._told: dict[Key, dict[Place, int]] = {}
        """The error number of each door that is not open, so that it is told once."""
        watches = [Watch(services), Watch(slices, lambda each: [each.service])]
        self._controller = Controller("service doors", self._reconcile, watches)

    async def run(self) -> None:
        """Work until `stop`."""
        try:
            await self._controller.run()
        finally:
            for doors in self._open.values():
                for door in doors.values():
                    door.abort()

    def stop(self) -> None:
        """Let `run` return."""
        self._controller.stop()

    async def _reconcile(self, key: Key) -> Result | None:
        service = self._services.store.get(key)
        wanted = doors_of(service, self._table.routes(key))
        opened, told = self._open.pop(key, {}), self._told.pop(key, {})
        places = {door.place for door in wanted}
        for place in [place for place in opened if place not in places]:
            opened.pop(place).close()
        failed: dict[Place, int] = {}
        for door in wanted:
            if door.place in opened:
                opened[door.place].route = door.route
            elif error := await self._try_open(door, opened):
                failed[door.place] = error
        if opened:
            self._open[key] = opened
        if service is None or not wanted:
            return None
        if failed:
            self._told[key] = failed
        for door in wanted:
            error = failed.get(door.place, 0)
            if error and told.get(door.place) != error:
                text = complaint(service, door, error, opened)
                self._events.event(_reference(service), "ListenFailed", text, warning=True)
        await self._say_where(service, opened)
        return Result(_TRY_AGAIN_SECONDS) if errno.EADDRINUSE in failed.values() else None

    async def _try_open(self, door: Door, opened: dict[Place, OpenDoor]) -> int:
        made = OpenDoor(door.route)
        try:
            await made.open(door.host, door.port)
        except OSError as error:
            return error.errno or errno.EIO
        opened[door.place] = made
        return 0

    async def _say_where(self, service: Service, opened: dict[Place, OpenDoor]) -> None:
        """A load balancer has an address once something listens there."""
        mirror = mirrored(service.spec.cluster_ip) if is_balanced(service) else None
        if mirror is None or all(host != mirror for host, _ in opened):
            return
        if service.status.load_balancer.ingress == (Ingress(ip=mirror, ip_mode="Proxy"),):
            return
        metadata = service.metadata
        ingress = [{"ip": mirror, "ipMode": "Proxy"}]
        body = {
            "metadata": {"uid": metadata.uid},
            "status": {"loadBalancer": {"ingress": ingress}},
        }
        try:
            await self._client.patch(
                SERVICES, metadata.name, body, metadata.namespace, subresource="status"
            )
        except NotFound:
            return
        self._events.event(_reference(service), "EnsuredLoadBalancer", "Ensured load balancer")


def complaint(service: Service, door: Door, error: int, opened: Collection[Place]) -> str:
    """Why a door is not open, and how the Service is reached without it."""
    why = os.strerror(error)
    if error == errno.EACCES and door.port < _PRIVILEGED:
        why = "ports below 1024 need privileges"
    elif error == errno.EADDRINUSE:
        why = "another program listens there"
    number = door.route.port
    others = doors_of(service, [door.route])
    ways = [f"connect to {other}" for other in others if other.place in opened]
    local = number if number >= _PRIVILEGED else 8000 + number
    name, namespace = service.metadata.name, service.metadata.namespace
    ways.append(f"use kubectl port-forward -n {namespace} service/{name} {local}:{number}")
    return (
        f"Cannot listen at {door}: {why}. Pods are not affected, unless they share this machine's "
        f"network; from here {', or '.join(ways)}"
    )


def _reference(service: Service) -> Reference:
    metadata = service.metadata
    return Reference.to(SERVICES, metadata.name, metadata.namespace, metadata.uid)
