"""All runnables of inference services, for a `kube.Manager`.

    serving = build_serving(client, ServingSettings())
    manager.add(*serving.runnables)
    manager.add_leader_runnables(*serving.leader_runnables)

Every replica has caches, control plane and signals: a gateway may connect to any. What writes runs
only under leader election.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.certificate_sources import CertificateSource
from kilonova.serving.autoscaler.controller import build_autoscaler
from kilonova.serving.caches import Caches, build_caches
from kilonova.serving.context import ServingContext
from kilonova.serving.controllers.service.controller import build_service_controller
from kilonova.serving.controlplane import build_control_plane
from kilonova.serving.metrics import ServiceMetrics
from kilonova.serving.models.loader import build_model_loader
from kilonova.serving.settings import ServingSettings
from kilonova.serving.signals.assembly import build_signals
from kilonova.serving.sources.releases import build_release_cache, build_release_controller

COMPONENT = "kilonova-serving"
"""The reporting component of events."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The runnables."""

    caches: Caches
    runnables: tuple[Runnable, ...]
    """What every replica runs."""
    leader_runnables: tuple[Runnable, ...]
    """What writes: only the elected leader runs it."""
    prepare: Callable[[], Awaitable[None]]
    """To be awaited before they run; `OSError` or `ValueError` for an unusable certificate."""


def build_serving(
    client: Client,
    settings: ServingSettings | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    registry: CollectorRegistry | None = None,
    new_id: Callable[[], str] = random_id,
    certificates: CertificateSource | None = None,
) -> Serving:
    """Build everything over a client.

    `now` is the wall clock, `monotonic` never goes backwards. `registry` gets the metrics. `new_id`
    makes the names of events. With `certificates` the control plane is served over TLS.
    """
    known = settings or ServingSettings()
    caches = build_caches(client, runtime_metrics, known.namespace)
    recorder = EventRecorder(
        client,
        COMPONENT,
        metrics=runtime_metrics if isinstance(runtime_metrics, Metrics) else None,
        clock=monotonic,
        wall=now,
        new_id=new_id,
    )
    context = ServingContext(
        client,
        caches,
        recorder,
        known,
        lambda: control_plane.address,
        now,
        monotonic,
        runtime_metrics,
        new_id,
    )
    signals = build_signals(context)
    control_plane = build_control_plane(
        client,
        caches,
        known,
        overloaded=signals.overloaded,
        certificates=certificates,
        registry=registry,
        runtime_metrics=runtime_metrics,
        monotonic=monotonic,
        now=now,
    )
    release_cache, release_controller = _build_releases(context)
    return Serving(
        caches,
        (
            *caches.runnables,
            *release_cache,
            recorder,
            *signals.runnables,
            *control_plane.runnables,
        ),
        (
            *release_controller,
            build_service_controller(context, control_plane.configurations),
            build_model_loader(context, control_plane.held),
            ServiceMetrics(caches.services, registry),
            *build_autoscaler(context, signals.source, control_plane.held, registry),
        ),
        control_plane.prepare,
    )


def _build_releases(context: ServingContext) -> tuple[tuple[Runnable, ...], tuple[Runnable, ...]]:
    """ConfigMaps of services: the cache, and the controller."""
    if not context.settings.namespace and not context.settings.releases:
        return (), ()
    cache = build_release_cache(context)
    return (cache,), (build_release_controller(context, cache),)
