"""Prometheus metrics of services: how many there are in each phase."""

import asyncio

from prometheus_client import CollectorRegistry

from kilonova.api.serving import InferenceService
from kilonova.kube import Reflector
from kilonova.kube.observability.object_metrics import LabelSets, ObjectGauge, observe_objects


class ServiceMetrics:
    """The metrics, in a registry; `run` keeps them up to date. A runnable of the leader, so that
    one replica reports."""

    name = "service metrics"

    def __init__(
        self, services: Reflector[InferenceService], registry: CollectorRegistry | None = None
    ) -> None:
        self._services = services
        self._phases = ObjectGauge(
            "kilonova_serving_services",
            "InferenceServices by phase.",
            ("namespace", "phase"),
            CollectorRegistry() if registry is None else registry,
        )

    async def run(self) -> None:
        """Update the metrics until cancelled."""
        stop = observe_objects(self._services.store, self._on_change)
        try:
            await asyncio.Event().wait()
        finally:
            stop()

    def _on_change(self, old: InferenceService | None, new: InferenceService | None) -> None:
        self._phases.move_object(_get_labels(old), _get_labels(new))


def _get_labels(service: InferenceService | None) -> LabelSets:
    if service is None:
        return frozenset()
    return frozenset({(service.metadata.namespace, service.status.phase or "Pending")})
