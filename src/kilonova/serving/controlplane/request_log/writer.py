"""Writes `status.traces`. A key is a service.

Every replica of the control plane writes: it merges what the gateways connected to it logged with
what the status has, of others, too. A write that another one overtakes is repeated.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from kilonova.api.serving import InferenceService
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    ChangeWatch,
    Client,
    Conflict,
    Controller,
    Key,
    Reflector,
    Result,
    RuntimeMetrics,
)
from kilonova.kube.status import StatusThrottle, apply_status
from kilonova.serving.controlplane.request_log.recent import RecentRequests
from kilonova.serving.controlplane.request_log.requests import select_worst
from kilonova.serving.resources import INFERENCE_SERVICES

FIELD_MANAGER = "kilonova-serving-traces"
TRACE_WRITE_SECONDS = 10.0
"""Between two writes of a status."""
_EXPIRY_SECONDS = 60.0
"""How often requests are looked for that are too old."""
_CONFLICT_SECONDS = 1.0


def build_trace_writer(
    client: Client,
    services: Reflector[InferenceService],
    recent: RecentRequests,
    *,
    now: Callable[[], datetime],
    throttle: StatusThrottle,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> Controller:
    """Build the controller, which every replica runs."""
    writer = _TraceWriter(client, services, recent, now, throttle)
    controller = Controller(
        "inferenceservice-traces",
        writer.reconcile,
        [ChangeWatch(services, _list_changed)],
        runtime_metrics=runtime_metrics,
    )
    recent.add_listener(lambda key: controller.queue.add(key))
    return controller


def _list_changed(old: InferenceService | None, new: InferenceService | None) -> Iterator[Key]:
    """A service that was created, changed or deleted; a status is no change."""
    changed = new or old
    assert changed is not None
    if old is None or new is None or old.metadata.generation != new.metadata.generation:
        yield changed.metadata.namespace, changed.metadata.name


class _TraceWriter:
    def __init__(
        self,
        client: Client,
        services: Reflector[InferenceService],
        recent: RecentRequests,
        now: Callable[[], datetime],
        throttle: StatusThrottle,
    ) -> None:
        self._client = client
        self._services = services
        self._recent = recent
        self._now = now
        self._throttle = throttle

    async def reconcile(self, key: Key) -> Result | None:
        """Write the traced requests of one service, if they changed."""
        service = self._services.store.get(key)
        if service is None or service.spec.gateway.tracing is None:
            self._recent.forget(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            return None
        if delay := self._throttle.get_delay(key):
            return Result(delay)
        written = service.status.traces
        wanted = select_worst((*written, *self._recent.list_worst(key)), self._now())
        if service.spec.gateway.tracing is None:
            wanted = ()
        if wanted != written:
            self._throttle.record_write(key)
            try:
                await apply_status(
                    self._client,
                    INFERENCE_SERVICES,
                    service.metadata,
                    {"traces": msgspec.to_builtins(wanted)},
                    require_version=True,
                    field_manager=FIELD_MANAGER,
                )
            except Conflict:
                self._throttle.forget(key)
                return Result(_CONFLICT_SECONDS)
        return Result(_EXPIRY_SECONDS) if wanted else None
