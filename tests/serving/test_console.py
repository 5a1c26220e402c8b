"""What serving contributes to the console: the page of inference services."""

from typing import Any

import msgspec

from kilonova.api.serving import InferenceService
from kilonova.console import core
from kilonova.console.description import Assembly
from kilonova.console.server import DERIVED_TABLES
from kilonova.serving.console import CONTRIBUTION
from kilonova.serving.console.rows import service_row
from tests.console.console_page import to_wire

BUSY = {
    "phase": "Ready",
    "ready": 2,
    "replicas": 3,
    "gateways": 1,
    "url": "http://127.96.0.9:8000",
    "servers": [
        {"name": "llm", "desired": 3, "replicas": 3, "ready": 2, "message": "1 pod is starting"},
        {"name": "canary", "desired": 0, "replicas": 0, "ready": 0},
    ],
    "scaling": [
        {
            "name": "llm",
            "desired": 3,
            "mode": "Demand",
            "message": "17 in flight",
            "load": {"inFlight": 17, "held": 0, "latencyP95": 80.5, "requestsPerSecond": 40.0},
        },
        {
            "name": "canary",
            "desired": 0,
            "load": {"inFlight": 1, "latencyP95": 120.0, "rejectedPerSecond": 2.0},
        },
    ],
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "ServersStarting", "message": "in part"},
        {"type": "ServersReady", "status": "False", "reason": "Starting", "message": "2 of 3"},
    ],
}


def read_service(status: dict[str, Any], **spec: Any) -> InferenceService:
    manifest = {
        "metadata": {"name": "chat", "namespace": "team", "uid": "u", "resourceVersion": "1"},
        "spec": {"servers": [{"name": "llm", "image": "llm"}], **spec},
        "status": status,
    }
    return msgspec.convert(manifest, InferenceService)


def test_contribution_is_valid() -> None:
    described = Assembly((core.CONTRIBUTION, CONTRIBUTION), DERIVED_TABLES).describe()
    assert "/inference" in [page.path for page in described.pages]


def test_figures_of_groups_are_added_and_the_greatest_time_counts() -> None:
    row = to_wire(service_row(read_service(BUSY)))
    assert row["inFlight"] == 18
    assert row["requests"] == 40.0
    assert row["rejected"] == 2.0
    assert row["latencyP95"] == 120.0
    assert row["problem"] == "2 of 3"
    assert row["groups"][0] == {
        "name": "llm",
        "ready": 2,
        "desired": 3,
        "mode": "Demand",
        "decision": "17 in flight",
        "inFlight": 17,
        "held": 0,
        "problem": "1 pod is starting",
    }


def test_unmeasured_figure_is_left_out_and_not_zero() -> None:
    row = to_wire(service_row(read_service({"ready": 0, "replicas": 0, "gateways": 0})))
    assert row == {
        "id": "team/chat",
        "phase": "Pending",
        "ready": 0,
        "replicas": 0,
        "gateways": 0,
        "desiredGateways": 1,
        "workload": "InferenceService.serving.kilonova.dev/team/chat",
    }


def test_traced_requests_are_named_with_their_model() -> None:
    known = {"traceId": "a" * 32, "time": "2026-01-01T00:00:00.5Z", "duration": 12.5}
    traces = [
        {**known, "request": "gRPC ModelInfer", "model": "add", "status": "OK", "group": "llm"},
        {**known, "request": "POST /v2/models/add/infer", "model": "add", "firstByte": 3.0},
    ]
    first, second = to_wire(service_row(read_service({**BUSY, "traces": traces})))["traces"]
    assert first == {
        "traceId": "a" * 32,
        "request": "gRPC ModelInfer (add)",
        "status": "OK",
        "group": "llm",
        "duration": 12.5,
        "ended": 1767225600.5,
    }
    assert (second["request"], second["status"]) == ("POST /v2/models/add/infer", "No answer")
    assert second["firstByte"] == 3.0


def test_series_have_only_what_was_measured() -> None:
    measured = {
        each.series: each
        for series in CONTRIBUTION.series
        for each in series.measure(read_service(BUSY))
    }
    assert measured["serving-in-flight"].value == 18
    assert measured["serving-held"].value == 0
    assert "serving-tokens" not in measured
    assert {each.key for each in measured.values()} == {"team/chat"}


def test_latency_without_requests_is_unknown_and_not_zero() -> None:
    sums, times = CONTRIBUTION.series
    assert (sums.reduce, times.reduce) == ("sum", "mean")
    assert set(sums.names) & {"serving-requests", "serving-held"}
    assert set(times.names) & {"serving-latency-p95", "serving-time-to-first-token"}


def test_deleted_service_is_terminating() -> None:
    service = read_service(BUSY)
    deleted = msgspec.structs.replace(service.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert service_row(InferenceService(deleted, service.spec, service.status)).phase == (
        "Terminating"
    )
