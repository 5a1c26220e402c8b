"""Prometheus metrics of the control plane."""

from prometheus_client import CollectorRegistry

from kilonova.kube.observability.metric_factory import MetricFactory
from kilonova.serving.controlplane.holds.answer import HoldOutcome

_PUSH_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class ControlPlaneMetrics:
    """The metrics, in a registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        create = MetricFactory(CollectorRegistry() if registry is None else registry)
        self._gateways = create.gauge(
            "kilonova_serving_connected_gateways", "Gateways that have an open stream."
        )()
        self._refused = create.counter(
            "kilonova_serving_refused_gateways_total",
            "Calls of gateways that were refused because of their token.",
        )()
        self._pushes = create.counter(
            "kilonova_serving_pushes_total", "Responses that were sent to gateways.", "type"
        )
        self._rejections = create.counter(
            "kilonova_serving_rejections_total", "Responses that gateways rejected (NACK).", "type"
        )
        self._push_seconds = create.histogram(
            "kilonova_serving_push_seconds",
            "From a change until a gateway acknowledged it.",
            buckets=_PUSH_BUCKETS,
        )()
        self._held = create.gauge(
            "kilonova_serving_held_requests", "Requests that wait until their group has a server."
        )()
        self._holds = create.counter(
            "kilonova_serving_holds_total", "Holds of requests that ended, by outcome.", "outcome"
        )
        self._failed_questions = create.counter(
            "kilonova_serving_failed_questions_total",
            "Servers that did not answer a question that was asked of all of them.",
        )()

    def add_gateways(self, number: int) -> None:
        """Count gateways that connected, or left."""
        self._gateways.inc(number)

    def count_refusal(self) -> None:
        """Count a call with a wrong token."""
        self._refused.inc()

    def count_push(self, type_: str) -> None:
        """Count a response that was sent."""
        self._pushes(type_).inc()

    def count_rejection(self, type_: str) -> None:
        """Count a response that was rejected."""
        self._rejections(type_).inc()

    def observe_push(self, seconds: float) -> None:
        """Record how long a change took to be acknowledged."""
        self._push_seconds.observe(seconds)

    def add_held(self, number: int) -> None:
        """Count requests that begin to be held, or no longer are."""
        self._held.inc(number)

    def count_hold(self, outcome: HoldOutcome) -> None:
        """Count the end of a hold."""
        self._holds(outcome.value).inc()

    def count_failed_question(self) -> None:
        """Count a server that did not answer."""
        self._failed_questions.inc()
