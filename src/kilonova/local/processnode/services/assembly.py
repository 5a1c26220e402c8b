"""Assembly of what makes Services work on the process node."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from kilonova.kube import Client, Reflector, Resource, Runnable
from kilonova.kube.events import EventRecorder
from kilonova.local.processnode.network.routes import Backend
from kilonova.local.processnode.services.dns.server import ClusterDns, read_nameservers
from kilonova.local.processnode.services.objects import (
    ENDPOINT_SLICES,
    SERVICES,
    EndpointSlice,
    Service,
)
from kilonova.local.processnode.services.proxy.route_table import (
    BY_SERVICE,
    RoutePublisher,
    RouteTable,
)
from kilonova.local.processnode.services.proxy.service_proxy import ServiceProxy

T = TypeVar("T")

_COMPONENT = "service-controller"
_LOCAL_HOSTS = frozenset({"0.0.0.0", "::", "localhost", ""})  # noqa: S104 (what the API may listen at)


class ServiceContext(Protocol):
    """What the components are built from: shared caches, clients and event recorders."""

    def informer(self, resource: Resource[T]) -> Reflector[T]: ...

    def client_for(self, name: str) -> Client: ...

    def recorder(self, component: str) -> EventRecorder: ...


def build_service_components(
    context: ServiceContext,
    publish_routes: RoutePublisher,
    url: str,
    upstream: Callable[[], list[Backend]] | None = None,
) -> list[Runnable]:
    """Cluster DNS, routes and service listeners. `url` is the API's; empty if it does not listen.

    `publish_routes` sends all routes to the shim whenever one changes; it raises OSError while that
    is impossible, and is retried. `upstream` are the nameservers for other names, by default the
    machine's.
    """
    services, slices = context.informer(SERVICES), context.informer(ENDPOINT_SLICES)
    slices.store.add_index(BY_SERVICE, lambda each: [each.service_key])
    dns = ClusterDns(_CachedDirectory(services, slices), upstream)
    table = RouteTable(
        services,
        slices,
        publish_routes,
        api=parse_api_backend(url),
        dns=dns.wait_listening,
        nameservers=read_nameservers,
    )
    client, events = context.client_for(_COMPONENT), context.recorder(_COMPONENT)
    return [dns, table, ServiceProxy(client, services, slices, table, events)]


def parse_api_backend(url: str) -> Backend | None:
    """The address at which pods of this machine reach the API at a URL."""
    parts = urlsplit(url)
    if not parts.port:
        return None
    host = parts.hostname or ""
    return Backend("127.0.0.1" if host in _LOCAL_HOSTS else host, parts.port)


class _CachedDirectory:
    """Services and their endpoints for the cluster DNS, from caches."""

    def __init__(self, services: Reflector[Service], slices: Reflector[EndpointSlice]) -> None:
        self._services = services.store
        self._slices = slices.store

    def service(self, namespace: str, name: str) -> Service | None:
        return self._services.get((namespace, name))

    def slices(self, namespace: str, name: str) -> Sequence[EndpointSlice]:
        return self._slices.by_index(BY_SERVICE, (namespace, name))
