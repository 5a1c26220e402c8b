"""The parts of the cluster that make Services work at the process node."""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from kilonova.kube import Part, Reflector
from kilonova.local.controllers.workshop import Workshop
from kilonova.local.nodes.process.network.routes import Backend
from kilonova.local.nodes.process.services.dns import ClusterDns, nameservers
from kilonova.local.nodes.process.services.doors import Doors
from kilonova.local.nodes.process.services.objects import (
    SERVICES,
    SLICES,
    EndpointSlice,
    Service,
)
from kilonova.local.nodes.process.services.table import BY_SERVICE, HandOver, RouteTable

_COMPONENT = "service-controller"
_HERE = frozenset({"0.0.0.0", "::", "localhost", ""})  # noqa: S104 (what the API may listen at)


def service_parts(
    workshop: Workshop,
    hand_over: HandOver,
    url: str,
    upstream: Callable[[], list[Backend]] | None = None,
) -> list[Part]:
    """Cluster DNS, routes and doors. `url` is the API's; empty if it does not listen.

    `hand_over` gives all routes to the keeper, each time that one changes; it raises OSError while
    that cannot be, and is called again. `upstream` are the nameservers for names that are not the
    cluster's, by default the machine's.
    """
    services, slices = workshop.cache(SERVICES), workshop.cache(SLICES)
    slices.store.add_index(BY_SERVICE, lambda each: [each.service])
    dns = ClusterDns(_Caches(services, slices), upstream)
    table = RouteTable(
        services,
        slices,
        hand_over,
        api=api_backend(url),
        dns=dns.listening,
        nameservers=nameservers,
    )
    client, events = workshop.account(_COMPONENT), workshop.recorder(_COMPONENT)
    return [dns, table, Doors(client, services, slices, table, events)]


def api_backend(url: str) -> Backend | None:
    """Where pods of this machine reach the API that listens at a URL."""
    parts = urlsplit(url)
    if not parts.port:
        return None
    host = parts.hostname or ""
    return Backend("127.0.0.1" if host in _HERE else host, parts.port)


class _Caches:
    """The directory of the cluster's DNS."""

    def __init__(self, services: Reflector[Service], slices: Reflector[EndpointSlice]) -> None:
        self._services = services.store
        self._slices = slices.store

    def service(self, namespace: str, name: str) -> Service | None:
        return self._services.get((namespace, name))

    def slices(self, namespace: str, name: str) -> Sequence[EndpointSlice]:
        return self._slices.find(BY_SERVICE, (namespace, name))
