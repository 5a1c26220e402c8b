"""Metrics of language models, with vLLM's names."""

from kilonova.kube.observability.metric_factory import MetricFactory
from kilonova.kube.observability.metrics import Metrics

_SHORT = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5)
_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)


class LlmMetrics:
    """The metrics of all language models of a server."""

    def __init__(self, metrics: Metrics) -> None:
        create = MetricFactory(metrics.registry)
        label = "model_name"
        self.running = create.gauge(
            "vllm:num_requests_running", "Sequences in the batch that is executed.", label
        )
        self.waiting = create.gauge(
            "vllm:num_requests_waiting", "Sequences that wait for a slot or the cache.", label
        )
        self.cache_usage = create.gauge(
            "vllm:kv_cache_usage_perc", "Used part of the KV cache: 1 is all of it.", label
        )
        self.prefix_queries = create.counter(
            "vllm:prefix_cache_queries", "Tokens of prompts that were looked up.", label
        )
        self.prefix_hits = create.counter(
            "vllm:prefix_cache_hits", "Tokens of prompts that were in the cache.", label
        )
        self.prompt_tokens = create.counter(
            "vllm:prompt_tokens", "Tokens of prompts, cached ones included.", label
        )
        self.generation_tokens = create.counter(
            "vllm:generation_tokens", "Generated tokens.", label
        )
        self.successes = create.counter(
            "vllm:request_success", "Finished requests, by reason.", label, "finished_reason"
        )
        self.time_to_first_token = create.histogram(
            "vllm:time_to_first_token_seconds",
            "From the request to its first token.",
            label,
            buckets=_LONG,
        )
        self.inter_token_latency = create.histogram(
            "vllm:inter_token_latency_seconds",
            "Between two tokens.",
            label,
            buckets=_SHORT,
        )
        self.queue_time = create.histogram(
            "vllm:request_queue_time_seconds", "In the queue.", label, buckets=_LONG
        )
        self.inference_time = create.histogram(
            "vllm:request_inference_time_seconds",
            "From leaving the queue to the last token.",
            label,
            buckets=_LONG,
        )
        self.latency = create.histogram(
            "vllm:e2e_request_latency_seconds",
            "From the request to its last token.",
            label,
            buckets=_LONG,
        )
