"""The control plane, from its parts."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.serving.certificate_sources import CertificateSource
from kilonova.kube.status import StatusThrottle
from kilonova.serving.caches import Caches
from kilonova.serving.controlplane.ads.connections import GatewayConnections
from kilonova.serving.controlplane.authentication import Authenticator, StoredTokens
from kilonova.serving.controlplane.certificate import ControlPlaneCertificate
from kilonova.serving.controlplane.configurations import GatewayConfigurations
from kilonova.serving.controlplane.holds.requests import HeldRequestQueue
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.controlplane.publisher import (
    DRAIN_DELAY_SECONDS,
    Publisher,
    PublisherContext,
    build_publisher_controller,
)
from kilonova.serving.controlplane.request_log.recent import RecentRequests
from kilonova.serving.controlplane.request_log.writer import (
    TRACE_WRITE_SECONDS,
    build_trace_writer,
)
from kilonova.serving.controlplane.secrets import POLL_SECONDS, ReferencedSecrets
from kilonova.serving.controlplane.server import ControlPlaneServer
from kilonova.serving.controlplane.server_parts import ServerParts
from kilonova.serving.gateway.model import ControlPlaneAddress, ServiceKey
from kilonova.serving.providers import Listener, OverloadedGroups
from kilonova.serving.settings import ServingSettings


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in seconds."""

    secret_poll: float = POLL_SECONDS
    """Between two reads of a Secret that a service refers to."""
    drain_delay: float = DRAIN_DELAY_SECONDS
    """From the deletion of a gateway until its listeners close."""
    trace_write: float = TRACE_WRITE_SECONDS
    """Between two writes of the traced requests of a service."""


class NoOverload:
    """No group is ever overloaded."""

    def overloaded(self, key: ServiceKey) -> frozenset[str]:
        """None."""
        return frozenset()

    def add_listener(self, listener: Listener) -> None:
        """It never changes."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane of all gateways. `prepare` it, then run its runnables."""

    server: ControlPlaneServer
    held: HeldRequestQueue
    configurations: GatewayConfigurations
    runnables: tuple[Runnable, ...]
    """Every replica runs them, after the caches."""
    refresh: Callable[[ServiceKey], None]
    """Look at a service again."""
    certificate: ControlPlaneCertificate | None = None

    @property
    def address(self) -> ControlPlaneAddress:
        """Where gateways reach it: for their bootstrap."""
        return self.server.address

    async def prepare(self) -> None:
        """Load the certificate, if there is one; `OSError` or `ValueError` if it is unusable."""
        if self.certificate is not None:
            await self.certificate.load()


def build_control_plane(
    client: Client,
    caches: Caches,
    settings: ServingSettings,
    *,
    overloaded: OverloadedGroups | None = None,
    certificates: CertificateSource | None = None,
    registry: CollectorRegistry | None = None,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    monotonic: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    timing: Timing | None = None,
) -> ControlPlane:
    """Build the control plane. `caches` are run by the caller.

    With `certificates` it is served over TLS. `registry` gets its metrics.
    """
    timing = timing or Timing()
    overloaded = overloaded or NoOverload()
    metrics = ControlPlaneMetrics(registry)
    publications = Publications()
    connections = GatewayConnections(publications, metrics, monotonic)
    held = HeldRequestQueue(publications, connections, metrics)
    publications.add_listener(held.update)
    connections.add_listener(held.update)
    tokens = StoredTokens(caches.gateway_secrets.store)
    authenticator = Authenticator(tokens, metrics)
    certificate = (
        ControlPlaneCertificate("serving-control-plane", certificates) if certificates else None
    )
    recent = RecentRequests(monotonic)
    parts = ServerParts(publications, connections, held, recent, authenticator, metrics, registry)
    server = ControlPlaneServer(parts, caches, settings, certificate)
    secrets = ReferencedSecrets(client, lambda key: refresh(key), poll_seconds=timing.secret_poll)
    context = PublisherContext(
        caches=caches,
        publications=publications,
        tokens=tokens,
        wait_for_server=server.wait_until_running,
        overloaded=overloaded,
        on_this_machine=settings.on_this_machine,
        monotonic=monotonic,
        drain_delay=timing.drain_delay,
    )
    publisher = Publisher(context, secrets)
    controller = build_publisher_controller(context, publisher, runtime_metrics)
    traces = build_trace_writer(
        client,
        caches.services,
        recent,
        now=now,
        throttle=StatusThrottle(timing.trace_write, monotonic),
        runtime_metrics=runtime_metrics,
    )

    def refresh(key: ServiceKey) -> None:
        controller.queue.add(key)

    overloaded.add_listener(refresh)
    renewal = (certificate.watcher,) if certificate is not None else ()
    return ControlPlane(
        server,
        held,
        GatewayConfigurations(publications, connections, publisher),
        (*renewal, server, secrets, controller, traces),
        refresh,
        certificate,
    )
