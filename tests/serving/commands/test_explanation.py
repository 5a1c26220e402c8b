"""What commands say of a service, from its status and its pods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.serving import InferenceService
from kilonova.component.failure import CommandFailed
from kilonova.serving.commands.apply.client_examples import describe_ready_service
from kilonova.serving.commands.bench.service_address import find_address
from kilonova.serving.commands.scaling_change import plan_scaling
from kilonova.serving.commands.views.details import format_details
from kilonova.serving.commands.views.explanation import explain_service, format_explanation
from kilonova.serving.resources import Pod

NOW = datetime(2026, 11, 19, 15, 0, tzinfo=UTC)
GROUP = {
    "name": "llm",
    "protocol": "OpenAI",
    "autoscaling": {"minReplicas": 0, "maxReplicas": 5},
}
STATUS = {
    "observedGeneration": 3,
    "phase": "Degraded",
    "url": "http://127.96.0.9:8000",
    "grpcAddress": "127.96.0.9:8001",
    "serviceAddress": "web.cms.svc.cluster.local",
    "ready": 2,
    "gateways": 1,
    "servers": [
        {
            "name": "llm",
            "desired": 3,
            "replicas": 3,
            "ready": 2,
            "draining": 1,
            "message": "web-llm-2-server-x: Unschedulable: 0/4 nodes",
            "models": [{"name": "tiny", "copies": 2, "loading": 1}],
        }
    ],
    "scaling": [
        {
            "name": "llm",
            "desired": 3,
            "mode": "Demand",
            "message": "17 requests in flight: 3 servers of 8 each",
            "decidedAt": "2026-11-19T14:55:00Z",
            "load": {"inFlight": 17, "queued": 3, "requestsPerSecond": 120.5, "latencyP95": 31.2},
        }
    ],
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "NoReadyServer", "message": "llm\x1b[31m"},
        {"type": "GatewayReady", "status": "True", "reason": "GatewayReady"},
    ],
}


def build_service(
    status: dict[str, Any] | None = None, groups: list[Any] | None = None, **spec: Any
) -> InferenceService:
    metadata = {"name": "web", "namespace": "cms", "uid": "u", "generation": 3}
    body = {
        "metadata": {**metadata, "resourceVersion": "1"},
        "spec": {"servers": groups or [GROUP], **spec},
        "status": STATUS if status is None else status,
    }
    return msgspec.convert(body, InferenceService)


def build_pod(name: str, conditions: list[dict[str, str]], **metadata: Any) -> Pod:
    labels = {"serving.kilonova.dev/role": "server", "serving.kilonova.dev/server": "llm"}
    body = {
        "metadata": {
            "name": name,
            "namespace": "cms",
            "uid": name,
            "resourceVersion": "1",
            "labels": labels,
            **metadata,
        },
        "status": {"conditions": conditions},
    }
    return msgspec.convert(body, Pod)


def test_explanation_has_decision_load_and_what_pods_wait_for() -> None:
    message = "0/4 nodes are available: insufficient nvidia.com/gpu"
    pods = [
        build_pod("ready", [{"type": "Ready", "status": "True"}]),
        build_pod(
            "pending",
            [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                }
            ],
        ),
        build_pod(
            "leaving",
            [{"type": "Ready", "status": "True"}],
            deletionTimestamp="2026-11-19T14:59:00Z",
        ),
    ]
    text = format_explanation(explain_service(build_service(), pods, NOW), NOW)
    assert text.splitlines() == [
        "cms/web: Degraded",
        "  Ready: NoReadyServer: llm[31m",
        "Group llm: 2 of 3 servers ready, 1 draining",
        "  decided   Demand: 17 requests in flight: 3 servers of 8 each, 5m ago",
        "  bounds    0 to 5",
        "  load      17 in flight, 3 queued, 120 requests/s, latency p95 31.2 ms",
        "  waits     web-llm-2-server-x: Unschedulable: 0/4 nodes",
        "  model     tiny: 2 servers, 1 loading",
        "Pods that are not ready:",
        f"  pending: Unschedulable: {message}",
        "  leaving: it finishes its requests before it ends",
    ]


def test_service_that_no_controller_has_seen_says_so() -> None:
    found = explain_service(build_service({}), [], NOW)
    assert found.phase == "Pending"
    assert found.problems == [
        "the controller has not seen the latest change: `kilonova status` (on a cluster "
        "`kilonova doctor`) shows whether it runs"
    ]


@pytest.mark.parametrize(
    ("service", "bounds"),
    [
        (build_service(paused=True), "paused: the number stays as it is"),
        (build_service(groups=[{"name": "a"}]), "always 1: there is no autoscaling"),
        (build_service(groups=[{"name": "a", "replicas": 4}]), "always 4: there is no autoscaling"),
        (
            build_service(
                groups=[{"name": "a", "autoscaling": {"maxReplicas": 2, "scaler": "ScaledObject"}}]
            ),
            "1 to 2, by a ScaledObject",
        ),
    ],
)
def test_bounds_say_what_limits_the_number(service: InferenceService, bounds: str) -> None:
    assert explain_service(service, [], NOW).groups[0].bounds.startswith(bounds)


DAY = {"start": "0 8 * * *", "duration": "12h"}
NIGHT = {"start": "0 20 * * *", "duration": "12h", "maxReplicas": 0}
WEEK = {"start": "0 0 * * 1", "duration": "120h", "timeZone": "Europe/Berlin", "minReplicas": 2}


@pytest.mark.parametrize(
    ("schedule", "bounds"),
    [
        ([NIGHT], "1 to 3"),
        ([{**DAY, "maxReplicas": 2}, NIGHT], "1 to 2 by schedule 0 8 * * * UTC (otherwise 1 to 3)"),
        (
            [{**DAY, "minReplicas": 2, "maxReplicas": 2}],
            "2 to 2 by schedule 0 8 * * * UTC (otherwise 1 to 3)",
        ),
        (
            [{**DAY, "maxReplicas": 5}, WEEK],
            "2 to 5 by schedule 0 0 * * 1 Europe/Berlin and schedule 0 8 * * * UTC "
            "(otherwise 1 to 3)",
        ),
    ],
)
def test_bounds_are_those_in_force_and_by_which_schedule(
    schedule: list[dict[str, Any]], bounds: str
) -> None:
    autoscaling = {"minReplicas": 1, "maxReplicas": 3, "schedule": schedule}
    service = build_service(groups=[{"name": "a", "autoscaling": autoscaling}])
    assert explain_service(service, [], NOW).groups[0].bounds == bounds


def test_ready_service_comes_with_addresses_and_examples() -> None:
    groups = [GROUP, {"name": "triton"}]
    ready = {**STATUS, "phase": "Ready"}
    lines = list(describe_ready_service(build_service(ready, groups)))
    assert lines[:4] == [
        "cms/web is ready: 2 of 3 servers",
        "  HTTP  http://127.96.0.9:8000",
        "  gRPC  127.96.0.9:8001",
        "Try:",
    ]
    assert '"model": "tiny"' in lines[4]
    assert lines[5:] == [
        "  curl http://127.96.0.9:8000/v2/models/tiny",
        "  perf_analyzer -m tiny -i grpc -u 127.96.0.9:8001",
        "  kilonova serve bench web -n cms",
    ]


def test_examples_of_a_closed_service_have_a_key() -> None:
    service = build_service(auth={"apiKeys": {"secret": "keys"}})
    lines = list(describe_ready_service(service))
    assert "curl -H 'Authorization: Bearer KEY' " in lines[4]


def test_details_say_who_may_use_the_service() -> None:
    text = format_details(build_service(), [build_pod("p", [])])
    assert "Auth      none: everyone who reaches it may use it" in text
    assert "llm     Custom    OpenAI     2/3     0-5      Demand" in text
    closed = build_service(
        auth={"jwt": [{"name": "k", "issuer": "https://id", "jwksSecret": {"name": "j"}}]}
    )
    assert "Auth      tokens of https://id" in format_details(closed, [])


def test_scaling_sets_replicas_or_with_autoscaling_the_minimum() -> None:
    groups = [GROUP, {"name": "b", "replicas": 2}]
    service = build_service(groups=groups)
    assert plan_scaling(service, "b", 4).patch == [
        {"op": "test", "path": "/spec/servers/1/name", "value": "b"},
        {"op": "add", "path": "/spec/servers/1/replicas", "value": 4},
    ]
    assert plan_scaling(service, "llm", 2).patch[1] == {
        "op": "add",
        "path": "/spec/servers/0/autoscaling/minReplicas",
        "value": 2,
    }
    assert plan_scaling(build_service(), "", 5).message.endswith("5 to 5 servers, by the load")


@pytest.mark.parametrize(
    ("group", "number", "problem"),
    [
        ("", 1, "several groups: choose one by --group: llm, b"),
        ("c", 1, "has no group c: it has llm, b"),
        ("llm", 6, "at most 5 servers: raise autoscaling.maxReplicas first"),
    ],
)
def test_impossible_scaling_is_explained(group: str, number: int, problem: str) -> None:
    service = build_service(groups=[GROUP, {"name": "b"}])
    with pytest.raises(CommandFailed, match=problem):
        plan_scaling(service, group, number)


@pytest.mark.parametrize(
    ("protocol", "group", "found"),
    [
        (None, "OpenAI", ("http://127.96.0.9:8000/v1/chat/completions", "openai")),
        (None, "V2", ("grpc://127.96.0.9:8001", "v2-grpc")),
        (None, "HTTP", ("http://127.96.0.9:8000", "http")),
        ("v2-http", "OpenAI", ("http://127.96.0.9:8000", "v2-http")),
    ],
)
def test_load_goes_to_the_gateway_by_the_protocol_of_the_service(
    protocol: Any, group: str, found: tuple[str, str]
) -> None:
    service = build_service(groups=[{"name": "a", "protocol": group}])
    address, chosen = find_address(service, protocol)
    assert (str(address), chosen) == found


def test_load_on_a_gateway_without_address_is_explained() -> None:
    with pytest.raises(CommandFailed, match="cms/web has no address for HTTP yet"):
        find_address(build_service({}), None)
    tls = build_service(groups=[{"name": "a"}], gateway={"tls": {"secret": "t"}})
    assert find_address(tls, None)[0].is_tls
