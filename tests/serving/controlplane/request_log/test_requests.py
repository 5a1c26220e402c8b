"""Which traced requests are worth a look, and what is said of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.serving import TracedRequest
from kilonova.api.times import format_micro_time
from kilonova.serving.controlplane.request_log.recent import RecentRequests
from kilonova.serving.controlplane.request_log.requests import (
    describe_request,
    describe_status,
    find_model,
    is_failed,
    select_worst,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("team", "chat")


def build(trace: str, duration: float = 1.0, *, age: float = 1.0, status: str = "200"):
    time = format_micro_time(NOW - timedelta(seconds=age))
    return TracedRequest(trace_id=trace, time=time, duration=duration, status=status)


def list_traces(requests: Any) -> list[str]:
    return [each.trace_id for each in requests]


@pytest.mark.parametrize(
    ("method", "path", "grpc_status", "text"),
    [
        ("POST", "/v1/completions", "", "POST /v1/completions"),
        ("GET", "/v2?token=secret", "", "GET /v2"),
        ("POST", "/inference.GRPCInferenceService/ModelInfer", "0", "gRPC ModelInfer"),
        ("POST", "/" + "a" * 500, "", "POST /" + "a" * 194),
    ],
)
def test_request_is_said_in_a_few_words(
    method: str, path: str, grpc_status: str, text: str
) -> None:
    assert describe_request(method, path, grpc_status) == text


@pytest.mark.parametrize(
    ("path", "header", "model"),
    [
        ("/v2/models/add/infer", "", "add"),
        ("/v2/models/add/infer", "sub", "sub"),
        ("/v1/completions", "llama", "llama"),
        ("/v2/health/ready", "", ""),
    ],
)
def test_model_is_named_by_the_path_or_the_gateway(path: str, header: str, model: str) -> None:
    assert find_model(path, header) == model


@pytest.mark.parametrize(
    ("code", "grpc_status", "status", "failed"),
    [
        (200, "", "200", False),
        (404, "", "404", False),
        (429, "", "429", False),
        (503, "", "503", True),
        (0, "", "", True),
        (200, "0", "OK", False),
        (200, "3", "INVALID_ARGUMENT", False),
        (200, "8", "RESOURCE_EXHAUSTED", False),
        (200, "14", "UNAVAILABLE", True),
        (200, "99", "99", False),
    ],
)
def test_status_says_whether_the_service_failed(
    code: int, grpc_status: str, status: str, failed: bool
) -> None:
    assert describe_status(code, grpc_status) == status
    assert is_failed(build("a", status=status)) is failed


def test_worst_are_the_latest_failed_and_the_slowest() -> None:
    quick = [build(f"ok-{each}", each) for each in range(20)]
    failed = [build(f"failed-{each}", age=each, status="503") for each in range(8)]
    assert list_traces(select_worst([*quick, *failed], NOW)) == [
        *(f"failed-{each}" for each in range(5)),
        *(f"ok-{each}" for each in (19, 18, 17, 16, 15)),
    ]


def test_more_that_failed_are_shown_where_there_is_nothing_else() -> None:
    failed = [build(f"failed-{each}", age=each, status="503") for each in range(20)]
    found = select_worst([build("ok", 5.0), *failed], NOW)
    assert list_traces(found) == [*(f"failed-{each}" for each in range(9)), "ok"]


def test_request_is_forgotten_after_ten_minutes_and_listed_once() -> None:
    old, new = build("old", age=601), build("new", age=599)
    assert list_traces(select_worst([old, new, new], NOW)) == ["new"]


def test_worst_of_each_minute_are_kept_in_bounded_memory() -> None:
    clock = [0.0]
    recent = RecentRequests(lambda: clock[0])
    told: list[Any] = []
    recent.add_listener(told.append)
    for minute in range(60):
        clock[0] = minute * 60.0
        recent.add(KEY, [build(f"{minute}-{each}", each) for each in range(1000)])
        recent.add(KEY, [build(f"{minute}-{each}", status="503") for each in range(1000)])
    kept = recent.list_worst(KEY)
    assert len(kept) == 11 * 20
    assert {each.trace_id.partition("-")[0] for each in kept} == {
        str(minute) for minute in range(49, 60)
    }
    assert min(each.duration for each in kept if each.status == "200") == 990
    told.clear()
    recent.add(KEY, [build("quick", 0.1)])
    assert not told, "it is none of the worst"
    recent.forget(KEY)
    assert not recent.list_worst(KEY)
