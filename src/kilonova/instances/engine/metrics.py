"""Metrics of agents and of the conductor."""

from prometheus_client import Counter

from kilonova.kube.observability.metric_factory import MetricFactory
from kilonova.kube.observability.metrics import Metrics


class EngineMetrics:
    """Metrics of one process of an engine."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        create = MetricFactory(registry)
        self.agents = create.gauge(
            "kilonova_engine_agents", "Agents of the instance, by state.", "state"
        )
        self.joins = create.counter(
            "kilonova_engine_joins_total",
            "Joins of agents, by result: Joined, or why not.",
            "result",
        )
        self.losses = Counter(
            "kilonova_engine_connections_lost_total",
            "Connections of joined agents that were lost.",
            registry=registry,
        )
        self.requests = create.counter(
            "kilonova_engine_requests_total", "Requests for completions, by status.", "code"
        )
        self.tokens = Counter(
            "kilonova_engine_tokens_total", "Tokens of answers.", registry=registry
        )
        self.shards = Counter(
            "kilonova_engine_shards_total", "Shards computed by the agent.", registry=registry
        )
