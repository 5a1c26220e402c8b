"""Opens and closes the service listeners, and reports load balancer addresses.

A listener that cannot be opened is reported by a Warning event on its Service, with another way to
connect. One whose port is in use is retried; the others wait for a change.
"""

import errno
import os
from collections.abc import Collection

from kilonova.api.service_addresses import map_to_loopback
from kilonova.kube import Client, Controller, NotFound, Reflector, Result, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.processnode.services.objects import (
    SERVICES,
    EndpointSlice,
    LoadBalancerIngress,
    Service,
)
from kilonova.local.processnode.services.proxy.forwarder import ServiceForwarder
from kilonova.local.processnode.services.proxy.route_table import RouteTable
from kilonova.local.processnode.services.proxy.service_routes import (
    HostPort,
    ServiceListener,
    has_pod_listener,
    is_own_load_balancer,
    plan_listeners,
)

_RETRY_SECONDS = 30.0
_FIRST_UNPRIVILEGED_PORT = 1024


class ServiceProxy:
    """All service listeners. `run` runs until `stop`; all connections end with it."""

    name = "service proxy"

    def __init__(
        self,
        client: Client,
        services: Reflector[Service],
        slices: Reflector[EndpointSlice],
        table: RouteTable,
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._services = services
        self._table = table
        self._events = events
        self._forwarders: dict[Key, dict[HostPort, ServiceForwarder]] = {}
        self._reported_errors: dict[Key, dict[HostPort, int]] = {}
        """The error number of each listener that is not open, so that it is reported once."""
        watches = [Watch(services), Watch(slices, lambda each: [each.service_key])]
        self._controller = Controller("service proxy", self._reconcile, watches)

    async def run(self) -> None:
        """Work until `stop`."""
        try:
            await self._controller.run()
        finally:
            for forwarders in self._forwarders.values():
                for forwarder in forwarders.values():
                    forwarder.abort()

    def stop(self) -> None:
        """Let `run` return."""
        self._controller.stop()

    async def _reconcile(self, key: Key) -> Result | None:
        service = self._services.store.get(key)
        routes = self._table.routes_of(key)
        listeners = plan_listeners(service, routes)
        opened, reported = self._forwarders.pop(key, {}), self._reported_errors.pop(key, {})
        host_ports = {listener.host_port for listener in listeners}
        for host_port in [host_port for host_port in opened if host_port not in host_ports]:
            opened.pop(host_port).close()
        failed: dict[HostPort, int] = {}
        for listener in listeners:
            if listener.host_port in opened:
                opened[listener.host_port].route = listener.route
            elif error := await self._try_listen(listener, opened):
                failed[listener.host_port] = error
        if opened:
            self._forwarders[key] = opened
        if service is None:
            return None
        if failed:
            self._reported_errors[key] = failed
        for listener in listeners:
            error = failed.get(listener.host_port, 0)
            if error and reported.get(listener.host_port) != error:
                text = describe_listen_failure(service, listener, error, opened)
                self._events.event(_object_reference(service), "ListenFailed", text, warning=True)
        hosts: set[str | None] = {host for host, _ in opened}
        if has_pod_listener(service) and any(route.backends for route in routes):
            hosts.add(map_to_loopback(service.spec.cluster_ip))
        await self._write_load_balancer_status(service, hosts)
        return Result(_RETRY_SECONDS) if errno.EADDRINUSE in failed.values() else None

    async def _try_listen(
        self, listener: ServiceListener, forwarders: dict[HostPort, ServiceForwarder]
    ) -> int:
        made = ServiceForwarder(listener.route)
        try:
            await made.listen(listener.host, listener.port)
        except OSError as error:
            return error.errno or errno.EIO
        forwarders[listener.host_port] = made
        return 0

    async def _write_load_balancer_status(
        self, service: Service, hosts: Collection[str | None]
    ) -> None:
        """A load balancer has an address once that is listened at, by us or by its pods."""
        mirror = map_to_loopback(service.spec.cluster_ip) if is_own_load_balancer(service) else None
        if mirror is None or mirror not in hosts:
            return
        if service.status.load_balancer.ingress == (
            LoadBalancerIngress(ip=mirror, ip_mode="Proxy"),
        ):
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
        self._events.event(
            _object_reference(service), "EnsuredLoadBalancer", "Ensured load balancer"
        )


def describe_listen_failure(
    service: Service, listener: ServiceListener, error: int, listening: Collection[HostPort]
) -> str:
    """Why a listener is not open, and how to reach the Service without it."""
    cause = os.strerror(error)
    if error == errno.EACCES and listener.port < _FIRST_UNPRIVILEGED_PORT:
        cause = "ports below 1024 require privileges"
    elif error == errno.EADDRINUSE:
        cause = "the port is in use by another program"
    number = listener.route.port
    others = plan_listeners(service, [listener.route])
    ways = [f"connect to {other}" for other in others if other.host_port in listening]
    local = number if number >= _FIRST_UNPRIVILEGED_PORT else 8000 + number
    name, namespace = service.metadata.name, service.metadata.namespace
    ways.append(f"use kubectl port-forward -n {namespace} service/{name} {local}:{number}")
    return (
        f"Cannot listen on {listener}: {cause}. Only pods with hostNetwork are affected; "
        f"from this machine {', or '.join(ways)}"
    )


def _object_reference(service: Service) -> ObjectReference:
    metadata = service.metadata
    return ObjectReference.to(SERVICES, metadata.name, metadata.namespace, metadata.uid)
