"""The page of inference services: who is served, how fast, and why there are so many servers."""

from collections.abc import Iterator
from typing import Literal

from kilonova.api.serving import InferenceService
from kilonova.component.console import (
    Action,
    ActionRequest,
    ChartLine,
    Charts,
    Column,
    Conditions,
    ConsoleContribution,
    Entries,
    Events,
    Fields,
    LiveObject,
    Measurement,
    Page,
    Related,
    SearchTarget,
    Series,
    Table,
    TimeChart,
    Tone,
    standard_actions,
)
from kilonova.serving.console.rows import service_row
from kilonova.serving.resources import INFERENCE_SERVICES

SERVICES = Table("inference-services", INFERENCE_SERVICES, service_row)

_SUMS = {
    "serving-servers-ready": "ready",
    "serving-servers": "replicas",
    "serving-requests": "requests",
    "serving-errors": "errors",
    "serving-rejected": "rejected",
    "serving-tokens": "tokens",
    "serving-in-flight": "in_flight",
    "serving-queued": "queued",
    "serving-held": "held",
}
"""Series that are 0 without a value, and the figure of a row that each of them follows."""

_TIMES = {
    "serving-latency-p50": "latency_p50",
    "serving-latency-p95": "latency_p95",
    "serving-latency-p99": "latency_p99",
    "serving-queue-time": "queue_time",
    "serving-compute-time": "compute_time",
    "serving-time-to-first-token": "time_to_first_token",
}
"""Series that are unknown without a value: without requests there is no latency."""

_PHASES: dict[str, Tone] = {
    "Pending": "wait",
    "Ready": "good",
    "Idle": "idle",
    "Degraded": "warn",
    "Failed": "bad",
    "Terminating": "idle",
}
_PHASE = Column(
    field="phase", title="Phase", format="state", tones=_PHASES, filter=True, width="104px"
)


def _number(
    field: str,
    title: str,
    width: int = 80,
    shown: Literal["always", "wide", "full"] = "always",
) -> Column:
    return Column(field=field, title=title, format="number", width=f"{width}px", shown=shown)


_PAGE = Page(
    path="/inference",
    title="Inference",
    key="i",
    icon="M2 4h8M2 8h12M2 12h8M12 2l2 2-2 2M12 10l2 2-2 2",
    order=50,
    table="inference-services",
    hide_empty=True,
    charts=(
        TimeChart("Requests per second", style="stacked", by_key="serving-requests"),
        TimeChart("Latency, 95th percentile (ms)", by_key="serving-latency-p95"),
        TimeChart("Servers", style="stacked", by_key="serving-servers-ready"),
    ),
    columns=(
        Column(field="name", title="Name"),
        Column(field="namespace", title="Namespace", filter=True, shown="full", width="110px"),
        _PHASE,
        _number("ready", "Ready", 60),
        _number("replicas", "Servers", 66, "full"),
        _number("requests", "Requests/s", 90),
        _number("latencyP95", "p95 ms", 66, "wide"),
        _number("inFlight", "In flight", 70, "full"),
        _number("held", "Held", 52, "full"),
        _number("tokens", "Tokens/s", 74, "full"),
        Column(field="problem", title="Problem", shown="full"),
        Column(field="created", title="Age", format="age", shown="full", width="60px"),
    ),
    state=_PHASE,
    sections=(
        Fields(
            (
                Column(field="url", title="HTTP", format="code"),
                Column(field="grpcAddress", title="gRPC", format="code"),
                Column(field="serviceAddress", title="Inside the cluster", format="code"),
                _number("gateways", "Gateways ready"),
                _number("desiredGateways", "Gateways"),
                Column(field="tracing", title="Traces are sent to", format="code"),
                Column(field="paused", title="Scaling paused", format="flag"),
                Column(field="problem", title="Problem"),
            )
        ),
        Charts(
            (
                TimeChart(
                    "Servers",
                    (
                        ChartLine("serving-servers-ready", "Ready"),
                        ChartLine("serving-servers", "Started", dashed=True),
                    ),
                    style="area",
                ),
                TimeChart(
                    "Latency at the gateway (ms)",
                    (
                        ChartLine("serving-latency-p50", "Median"),
                        ChartLine("serving-latency-p95", "p95"),
                        ChartLine("serving-latency-p99", "p99"),
                    ),
                ),
                TimeChart(
                    "Where the time goes (mean, ms)",
                    (
                        ChartLine("serving-queue-time", "Queue of the server"),
                        ChartLine("serving-compute-time", "Compute"),
                    ),
                    style="stacked",
                ),
                TimeChart(
                    "Requests per second",
                    (
                        ChartLine("serving-requests", "Answered"),
                        ChartLine("serving-errors", "Failed"),
                        ChartLine("serving-rejected", "Rejected"),
                    ),
                ),
                TimeChart(
                    "Requests waiting",
                    (
                        ChartLine("serving-in-flight", "In flight"),
                        ChartLine("serving-queued", "Queued"),
                        ChartLine("serving-held", "Held"),
                    ),
                    style="area",
                ),
                TimeChart("Tokens per second", (ChartLine("serving-tokens", "Tokens"),)),
                TimeChart(
                    "Time to first token, p95 (ms)",
                    (ChartLine("serving-time-to-first-token", "First token"),),
                ),
            )
        ),
        Entries(
            "Groups of servers",
            "groups",
            (
                Column(field="name", title="Group"),
                _number("ready", "Ready"),
                _number("desired", "Desired"),
                _number("draining", "Draining", shown="wide"),
                _number("inFlight", "In flight"),
                _number("queued", "Queued", shown="wide"),
                _number("held", "Held", shown="wide"),
                Column(field="mode", title="Decided by", shown="wide"),
                Column(field="decision", title="Why"),
                Column(field="problem", title="Waits for"),
            ),
        ),
        Entries(
            "Models",
            "models",
            (
                Column(field="model", title="Model"),
                Column(field="group", title="Group"),
                _number("copies", "Loaded"),
                _number("loading", "Loading"),
                Column(field="problem", title="Problem"),
            ),
        ),
        Entries(
            "Traced requests",
            "traces",
            (
                Column(field="request", title="Request"),
                Column(field="status", title="Status"),
                _number("duration", "ms"),
                _number("firstByte", "First byte", shown="wide"),
                _number("serverTime", "Server", shown="wide"),
                Column(field="ended", title="Ended", format="age", shown="wide"),
                Column(field="traceId", title="Trace", format="code"),
            ),
        ),
        Related(
            title="Pods",
            table="pods",
            by="workload",
            equals="workload",
            columns=(
                Column(field="name", title="Pod", link="pods"),
                Column(field="state", title="State"),
                Column(field="node", title="Node", link="nodes"),
            ),
        ),
        Conditions(),
        Events(),
        LiveObject(),
    ),
    empty="kubectl apply -f examples/serving/service.yaml",
)


async def _pause(request: ActionRequest) -> str:
    await _set_paused(request, paused=True)
    return f"{request.target} keeps its number of servers"


async def _resume(request: ActionRequest) -> str:
    await _set_paused(request, paused=False)
    return f"{request.target} is scaled by load again"


async def _set_paused(request: ActionRequest, *, paused: bool) -> None:
    patch = {"spec": {"paused": paused}}
    await request.client.patch(request.resource, request.name, patch, request.namespace)


def _measure(service: InferenceService) -> Iterator[Measurement]:
    yield from _measure_fields(service, _SUMS)


def _measure_times(service: InferenceService) -> Iterator[Measurement]:
    yield from _measure_fields(service, _TIMES)


def _measure_fields(service: InferenceService, fields: dict[str, str]) -> Iterator[Measurement]:
    row = service_row(service)
    for series, field in fields.items():
        value = getattr(row, field)
        if value is not None:
            yield Measurement(series, value, row.id)


CONTRIBUTION = ConsoleContribution(
    component="serving",
    tables=(SERVICES,),
    pages=(_PAGE,),
    series=(
        Series(names=tuple(_SUMS), table="inference-services", measure=_measure),
        Series(
            names=tuple(_TIMES), table="inference-services", measure=_measure_times, reduce="mean"
        ),
    ),
    actions=(
        Action(
            name="pause",
            table="inference-services",
            perform=_pause,
            title="Pause scaling",
            text="The number of servers stays as it is, whatever the load.",
            when="!paused",
        ),
        Action(
            name="resume",
            table="inference-services",
            perform=_resume,
            title="Resume scaling",
            text="The number of servers follows the load again.",
            when="paused",
        ),
        Action(
            name="delete",
            table="inference-services",
            perform=standard_actions.delete,
            title="Delete",
            text="The service, its servers and its gateway are deleted; clients get no answers.",
            danger=True,
        ),
    ),
    search=(
        SearchTarget("inference-services", "Inference service", ("{phase}", "{url}"), order=15),
    ),
)
