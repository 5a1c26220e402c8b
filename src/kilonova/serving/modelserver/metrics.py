"""Metrics with Triton's names, read from the statistics of models when they are scraped.

They are written here and not by prometheus_client: it would add `_total` to the names of counters,
which Triton does not have.
"""

from collections.abc import Callable, Iterator

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.routing import RequestHandler
from kilonova.serving.modelserver.execution import ModelStatistics, ServedModel
from kilonova.serving.modelserver.registry import ModelRegistry

_COUNTERS: tuple[tuple[str, str, Callable[[ModelStatistics], float]], ...] = (
    ("request_success", "Successful requests", lambda s: s.success.count),
    ("count", "Inferences; each item of a batch counts", lambda s: s.inferences),
    ("exec_count", "Executions of the model", lambda s: s.executions),
    ("request_duration_us", "Duration of requests", lambda s: s.success.ns / 1e3),
    ("queue_duration_us", "Duration of requests in the queue", lambda s: s.queue.ns / 1e3),
    ("compute_input_duration_us", "Preparing inputs", lambda s: s.compute.input.ns / 1e3),
    ("compute_infer_duration_us", "Executing the model", lambda s: s.compute.infer.ns / 1e3),
    ("compute_output_duration_us", "Preparing outputs", lambda s: s.compute.output.ns / 1e3),
)


def metrics_handler(metrics: Metrics, registry: ModelRegistry) -> RequestHandler:
    """The handler that Prometheus scrapes, in its text format."""

    async def scrape(request: Request) -> Reply:
        body, content_type = metrics.render()
        models = [each for each in registry.loaded() if isinstance(each, ServedModel)]
        text = "".join(f"{line}\n" for line in _render(models))
        return Reply(200, body + text.encode(), {"content-type": content_type})

    return scrape


def _render(models: list[ServedModel]) -> Iterator[str]:
    """Language models are left out: they have vLLM's metrics."""
    labels = {
        each: f'model="{_escape(each.spec.name)}",version="{each.spec.version}"' for each in models
    }
    for name, help, read in _COUNTERS:
        yield f"# HELP nv_inference_{name} {help}"
        yield f"# TYPE nv_inference_{name} counter"
        for each in models:
            yield f"nv_inference_{name}{{{labels[each]}}} {read(each.statistics):.15g}"
    yield "# HELP nv_inference_request_failure Failed requests, by reason"
    yield "# TYPE nv_inference_request_failure counter"
    for each in models:
        for reason in ("BACKEND", "CANCELED", "OTHER", "REJECTED"):
            failures = each.statistics.failures.get(reason)
            count = failures.count if failures else 0
            yield f'nv_inference_request_failure{{{labels[each]},reason="{reason}"}} {count}'
    yield "# HELP nv_inference_pending_request_count Requests in the queue"
    yield "# TYPE nv_inference_pending_request_count gauge"
    for each in models:
        yield f"nv_inference_pending_request_count{{{labels[each]}}} {each.pending}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
