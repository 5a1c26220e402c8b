"""What a server reports: metrics of Triton, of vLLM, and of servers with their names. Pure."""

from collections import defaultdict
from dataclasses import dataclass

from kilonova.serving.signals.readings.exposition import parse_samples
from kilonova.serving.signals.readings.histogram import Histogram
from kilonova.serving.signals.readings.reading import (
    Counter,
    Gauge,
    HistogramSamples,
    Measure,
    Reading,
    list_histogram_names,
)

_MICROSECONDS = 1e-6
_GAUGES: dict[str, Gauge] = {
    "nv_inference_pending_request_count": "queued",
    "vllm:num_requests_waiting": "queued",
}
_COUNTERS: dict[str, Counter] = {
    "vllm:generation_tokens_total": "tokens",
}
_DURATIONS: dict[str, Measure] = {
    # Triton has the sum of all requests, and no buckets: only the mean is known.
    "nv_inference_queue_duration_us": "queue",
    "nv_inference_compute_input_duration_us": "compute",
    "nv_inference_compute_infer_duration_us": "compute",
    "nv_inference_compute_output_duration_us": "compute",
}
_TRITON_REQUESTS = "nv_inference_request_success"


@dataclass(frozen=True, slots=True)
class _HistogramName:
    name: str
    measure: Measure
    scale: float = 1.0


_HISTOGRAMS = (
    # The first of a measure that a server has is used: newer names first.
    _HistogramName("nv_inference_first_response_histogram_ms", "first_token", 1e-3),
    _HistogramName("vllm:time_to_first_token_seconds", "first_token"),
    _HistogramName("vllm:inter_token_latency_seconds", "inter_token"),
    _HistogramName("vllm:time_per_output_token_seconds", "inter_token"),
    _HistogramName("vllm:request_queue_time_seconds", "queue"),
    _HistogramName("vllm:request_inference_time_seconds", "compute"),
)
_HISTOGRAM_OF = {
    sample: histogram.name
    for histogram in _HISTOGRAMS
    for sample in list_histogram_names(histogram.name)
}
_NAMES = (*_GAUGES, *_COUNTERS, *_DURATIONS, _TRITON_REQUESTS, *_HISTOGRAM_OF)

METRICS_PATH = "/metrics"


def parse_server_metrics(text: str) -> Reading:
    """The figures of a server, of all its models together. One that has none of these metrics says
    nothing."""
    gauges: dict[Gauge, float] = {}
    counters: dict[Counter, float] = {}
    durations: dict[Measure, float] = defaultdict(float)
    histograms: dict[str, HistogramSamples] = defaultdict(HistogramSamples)
    requests: float | None = None
    for sample in parse_samples(text, _NAMES):
        name = sample.name
        if name in _HISTOGRAM_OF:
            histograms[_HISTOGRAM_OF[name]].put(sample)
        elif name in _GAUGES:
            gauges[_GAUGES[name]] = gauges.get(_GAUGES[name], 0.0) + sample.value
        elif name in _COUNTERS:
            counters[_COUNTERS[name]] = counters.get(_COUNTERS[name], 0.0) + sample.value
        elif name in _DURATIONS:
            durations[_DURATIONS[name]] += sample.value * _MICROSECONDS
        else:
            requests = (requests or 0.0) + sample.value
    distributions: dict[Measure, Histogram] = {}
    for histogram in _HISTOGRAMS:
        if histogram.name in histograms:
            distributions.setdefault(
                histogram.measure, histograms[histogram.name].build(histogram.scale)
            )
    if requests is not None:
        for measure, seconds in durations.items():
            distributions.setdefault(measure, Histogram(seconds, requests))
    return Reading(gauges, counters, distributions)
