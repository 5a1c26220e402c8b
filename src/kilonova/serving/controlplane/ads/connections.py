"""The streams of all gateways that are connected to this process."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.controlplane.ads.snapshot import ResourceType
from kilonova.serving.controlplane.ads.stream import (
    DiscoveryRequest,
    DiscoveryResponse,
    GatewayStream,
)
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.providers import Listener

_log = get_logger(__name__)


@dataclass(eq=False, slots=True)
class Connection:
    """A stream of a gateway."""

    key: ServiceKey
    node: str
    """The name of the gateway's pod."""
    stream: GatewayStream = field(default_factory=GatewayStream)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    rejections: dict[ResourceType, str] = field(default_factory=dict[ResourceType, str])
    """What the gateway reports about the types of which it rejected the last response."""
    changed_at: float | None = None
    """When the first change happened that the gateway has not acknowledged."""
    is_sending: bool = False
    """Whether there was anything to send since then."""


class GatewayConnections:
    """All streams. Listeners are called with a service of which a gateway connected, left, or
    answered."""

    def __init__(
        self,
        publications: Publications,
        metrics: ControlPlaneMetrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._publications = publications
        self._metrics = metrics
        self._monotonic = monotonic
        self._connections: dict[ServiceKey, set[Connection]] = {}
        self._listeners: list[Listener] = []
        publications.add_listener(self._wake)

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a gateway of a service connected, left, or answered."""
        self._listeners.append(listener)

    def list_gateways(self, key: ServiceKey) -> list[Connection]:
        """The connected gateways of a service."""
        return list(self._connections.get(key, ()))

    def have_endpoints(self, key: ServiceKey) -> bool:
        """Whether all that are connected here acknowledged the endpoints."""
        published = self._publications.get(key)
        return published is not None and all(
            each.stream.has_acknowledged(published.snapshot, ResourceType.ENDPOINTS)
            for each in self._connections.get(key, ())
        )

    def are_all_here(self, key: ServiceKey) -> bool:
        """Whether all ready gateways of the service, and at least one, are connected to this
        process."""
        published = self._publications.get(key)
        here = {each.node for each in self._connections.get(key, ())}
        return published is not None and bool(here) and published.ready_gateways <= here

    @contextmanager
    def open(self, key: ServiceKey, node: str) -> Generator[Connection]:
        """A connection, while the context lasts."""
        connection = Connection(key, node)
        self._connections.setdefault(key, set()).add(connection)
        self._metrics.add_gateways(1)
        _log.info("gateway connected", service="/".join(key), gateway=node)
        self._notify(key)
        try:
            yield connection
        finally:
            others = self._connections[key]
            others.discard(connection)
            if not others:
                del self._connections[key]
            self._metrics.add_gateways(-1)
            _log.info("gateway disconnected", service="/".join(key), gateway=node)
            self._notify(key)

    def receive(self, connection: Connection, request: DiscoveryRequest) -> None:
        """Take in a request of a gateway."""
        if connection.stream.receive(request):
            self._note_answer(connection, request)
            self._notify(connection.key)
        connection.wake.set()

    def plan(self, connection: Connection) -> DiscoveryResponse | None:
        """The next response to send to a gateway, if there is one."""
        published = self._publications.get(connection.key)
        if published is None:
            return None
        stream = connection.stream
        stream.drains = connection.node in published.draining_gateways
        response = stream.plan(published.snapshot)
        if response is not None:
            connection.is_sending = True
            self._metrics.count_push(response.type.short_name)
        elif not stream.is_waiting:
            if connection.is_sending and connection.changed_at is not None:
                self._metrics.observe_push(self._monotonic() - connection.changed_at)
            connection.changed_at, connection.is_sending = None, False
        return response

    def _note_answer(self, connection: Connection, request: DiscoveryRequest) -> None:
        if not request.error:
            connection.rejections.pop(request.type, None)
            return
        connection.rejections[request.type] = request.error
        self._metrics.count_rejection(request.type.short_name)
        _log.error(
            "configuration rejected by gateway, the former one stays in use",
            service="/".join(connection.key),
            gateway=connection.node,
            type=request.type.short_name,
            error=request.error,
        )

    def _wake(self, key: ServiceKey) -> None:
        for connection in self._connections.get(key, ()):
            if connection.changed_at is None:
                connection.changed_at = self._monotonic()
            connection.wake.set()

    def _notify(self, key: ServiceKey) -> None:
        for listener in self._listeners:
            listener(key)
