"""The controller that turns the objects of a service into the configuration of its gateways."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kilonova.api.serving import InferenceServiceSpec, names
from kilonova.kube import Controller, Key, Result, RuntimeMetrics, Watch
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.caches import BY_SERVICE, Caches, list_service_keys
from kilonova.serving.controlplane.ads.snapshot import Encode, encode_snapshot
from kilonova.serving.controlplane.authentication import TokenSource
from kilonova.serving.controlplane.publication import Publication, Publications
from kilonova.serving.controlplane.references import list_referenced_secrets, resolve_secrets
from kilonova.serving.controlplane.secrets import ReferencedSecrets
from kilonova.serving.controlplane.state import (
    GatewayAccess,
    ObservedService,
    build_gateway_state,
    scales_from_zero,
)
from kilonova.serving.gateway.model import (
    ControlPlaneAddress,
    GatewayConfig,
    GatewayState,
    ServiceKey,
)
from kilonova.serving.providers import OverloadedGroups
from kilonova.serving.resources import Pod

_log = get_logger(__name__)

DRAIN_DELAY_SECONDS = 2.0
"""How long a gateway that is being deleted still accepts connections: until then clients may be
sent to it, as it takes a moment until no one does."""

Render = Callable[[ServiceKey, InferenceServiceSpec, GatewayState], GatewayConfig]


@dataclass(frozen=True, slots=True)
class RunningServer:
    """What is known, and loaded, once the server of the control plane runs."""

    address: ControlPlaneAddress
    render: Render
    encode: Encode


@dataclass(frozen=True, slots=True)
class PublisherContext:
    """What the publisher works with."""

    caches: Caches
    publications: Publications
    tokens: TokenSource
    wait_for_server: Callable[[], Awaitable[RunningServer]]
    overloaded: OverloadedGroups
    on_this_machine: bool
    monotonic: Callable[[], float]
    drain_delay: float = DRAIN_DELAY_SECONDS


@dataclass(slots=True)
class _Known:
    """What was published of a service, and from what."""

    spec: InferenceServiceSpec | None = None
    state: GatewayState | None = None
    failures: tuple[str, ...] = ()
    deleted_at: dict[str, float] = field(default_factory=dict[str, float])
    """When gateways were first seen to be deleted, by the names of their pods."""


class Publisher:
    """Publishes each service whose objects changed. `failures` are those of rendering."""

    def __init__(self, context: PublisherContext, secrets: ReferencedSecrets) -> None:
        self._context = context
        self._secrets = secrets
        self._known: dict[ServiceKey, _Known] = {}

    def list_failures(self, key: ServiceKey) -> tuple[str, ...]:
        """Why a service could not be rendered; its former configuration stays published."""
        known = self._known.get(key)
        return known.failures if known is not None else ()

    async def reconcile(self, key: Key) -> Result | None:
        """Publish a service if what its gateways are configured from has changed."""
        observed = self._observe(key)
        if observed is None:
            self._forget(key)
            return None
        server = await self._context.wait_for_server()
        spec = observed.service.spec
        names_ = list_referenced_secrets(spec)
        found = self._secrets.refer(key, names_)
        token = self._context.tokens.find(key)
        if token is None or found.keys() < names_:
            return None  # both are followed: the service is enqueued when they are there
        resolved = resolve_secrets(spec, found)
        access = GatewayAccess(server.address, token, self._context.on_this_machine)
        state = build_gateway_state(observed, access, resolved.secrets)
        known = self._known.setdefault(key, _Known())
        draining, delay = self._select_draining(known, observed.list_gateways())
        self._publish(key, known, observed, state, server, draining, resolved.warnings)
        return Result(delay) if delay is not None else None

    def _observe(self, key: Key) -> ObservedService | None:
        caches = self._context.caches
        service = caches.services.store.get(key)
        if service is None:
            return None
        own = caches.gateway_services.store.get((key[0], names.build_gateway_service(key[1])))
        return ObservedService(
            service,
            caches.pods.store.by_index(BY_SERVICE, key),
            caches.server_sets.store.by_index(BY_SERVICE, key),
            own.spec.cluster_ip if own is not None else "",
            self._context.overloaded.overloaded(key),
        )

    def _publish(
        self,
        key: ServiceKey,
        known: _Known,
        observed: ObservedService,
        state: GatewayState,
        server: RunningServer,
        draining: frozenset[str],
        warnings: tuple[str, ...],
    ) -> None:
        spec = observed.service.spec
        previous = self._context.publications.get(key)
        snapshot = previous.snapshot if previous is not None else None
        was_tried = snapshot is not None or bool(known.failures)
        if not was_tried or spec != known.spec or state != known.state:
            known.spec, known.state = spec, state
            try:
                config = server.render(key, spec, state)
                snapshot = encode_snapshot(config, state, snapshot, server.encode)
                known.failures = ()
            except ValueError as error:
                known.failures = (f"the configuration could not be built: {error}",)
                _log.exception("configuration not built", service="/".join(key))
        if snapshot is None:
            return
        publication = Publication(
            spec=spec,
            state=state,
            snapshot=snapshot,
            on_demand=frozenset(
                each.name for each in spec.servers if scales_from_zero(observed, each)
            ),
            ready_gateways=frozenset(
                each.metadata.name for each in observed.list_gateways() if each.is_ready
            ),
            draining_gateways=draining,
            warnings=warnings,
        )
        if publication != previous:
            self._context.publications.publish(key, publication)

    def _select_draining(
        self, known: _Known, gateways: Sequence[Pod]
    ) -> tuple[frozenset[str], float | None]:
        """The gateways that are to close their listeners, and when the next one is to."""
        now = self._context.monotonic()
        deleted = {
            each.metadata.name for each in gateways if each.metadata.deletion_timestamp is not None
        }
        known.deleted_at = {name: known.deleted_at.get(name, now) for name in deleted}
        due = {
            name: seen + self._context.drain_delay - now for name, seen in known.deleted_at.items()
        }
        later = [delay for delay in due.values() if delay > 0]
        return (
            frozenset(name for name, delay in due.items() if delay <= 0),
            min(later) if later else None,
        )

    def _forget(self, key: ServiceKey) -> None:
        self._secrets.refer(key, frozenset())
        self._known.pop(key, None)
        if self._context.publications.get(key) is not None:
            self._context.publications.publish(key, None)


def build_publisher_controller(
    context: PublisherContext, publisher: Publisher, runtime_metrics: RuntimeMetrics
) -> Controller:
    """The controller of the publisher."""
    caches = context.caches
    by_label = [caches.pods, caches.server_sets, caches.gateway_services, caches.gateway_secrets]
    return Controller(
        "gateway-configuration",
        publisher.reconcile,
        [
            Watch(caches.services),
            *(Watch(each, lambda obj: list_service_keys(obj.metadata)) for each in by_label),
        ],
        runtime_metrics=runtime_metrics,
    )
