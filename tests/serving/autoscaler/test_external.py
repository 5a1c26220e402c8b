"""Objects of other scalers: what they say, and what they cannot do."""

from typing import Any

import msgspec
import pytest

from kilonova.api.serving import ServerGroup
from kilonova.kube import unstructured_resource
from kilonova.serving.autoscaler.external import ScalerObject, build_scaler_object
from kilonova.serving.resources import POD_CLIQUE_SETS
from tests.conftest import Api
from tests.serving.builders.objects import identity_of, service

PROMETHEUS = "http://prometheus:9090"
AUTOSCALERS = unstructured_resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
)


def build(scaler: str, prometheus: str = PROMETHEUS, **autoscaling: Any) -> ScalerObject:
    fields = {"maxReplicas": 5, "scaler": scaler, **autoscaling}
    group = msgspec.convert({"name": "model", "autoscaling": fields}, ServerGroup)
    built = build_scaler_object(identity_of(service()), group, POD_CLIQUE_SETS, prometheus)
    assert built is not None
    return built


def test_our_own_scaler_needs_no_object() -> None:
    group = msgspec.convert({"name": "model", "autoscaling": {"maxReplicas": 2}}, ServerGroup)
    built = build_scaler_object(identity_of(service()), group, POD_CLIQUE_SETS, PROMETHEUS)
    assert built is None


def test_autoscaler_scales_the_set_by_requests_in_flight() -> None:
    built = build("HorizontalPodAutoscaler", minReplicas=2)
    assert built.problems == ()
    assert built.body is not None
    spec = built.body["spec"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "name": "web-model",
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
    assert spec["metrics"] == [
        {
            "type": "External",
            "external": {
                "metric": {
                    "name": "kilonova_serving_requests_in_flight",
                    "selector": {
                        "matchLabels": {"namespace": "team", "service": "web", "server": "model"}
                    },
                },
                "target": {"type": "AverageValue", "averageValue": "6400m"},
            },
        }
    ]
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 60


def test_scaled_object_has_the_semantics_of_supersonic() -> None:
    """Value, steps, polling, cooldown, and zero replicas while idle."""
    rate = {"stabilization": "60s", "maxReplicas": 1, "period": "60s"}
    built = build(
        "ScaledObject",
        minReplicas=0,
        metric={"query": "load", "threshold": 100, "perReplica": False},
        scaleUp=rate,
        scaleDown={"stabilization": "600s", "maxReplicas": 1, "period": "120s"},
        scaleToZero={"idleAfter": "120s"},
    )
    assert built.problems == ()
    assert built.body is not None
    spec = built.body["spec"]
    assert spec["pollingInterval"] == 30
    assert spec["cooldownPeriod"] == 120
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["idleReplicaCount"]) == (1, 5, 0)
    assert spec["triggers"] == [
        {
            "type": "prometheus",
            "metricType": "Value",
            "metadata": {"serverAddress": PROMETHEUS, "query": "load", "threshold": "100"},
        }
    ]
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior == {
        "scaleUp": {
            "stabilizationWindowSeconds": 60,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 600,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
        },
    }


def test_scaled_object_leaves_zero_by_requests_that_are_held() -> None:
    built = build("ScaledObject", minReplicas=0)
    assert built.body is not None
    (trigger,) = built.body["spec"]["triggers"]
    labels = '{namespace="team",service="web",server="model"}'
    assert trigger["metadata"]["query"] == (
        f"(sum(kilonova_serving_requests_in_flight{labels}) or vector(0)) + "
        f"(sum(kilonova_serving_requests_held{labels}) or vector(0))"
    )
    assert trigger["metadata"]["threshold"] == "6.4"
    assert trigger["metricType"] == "AverageValue"


def test_scaled_object_compares_latencies_in_the_unit_of_their_metric() -> None:
    built = build("ScaledObject", sla={"latency": "500ms", "timeToFirstToken": "2s"})
    assert built.body is not None
    triggers = built.body["spec"]["triggers"]
    assert [each["metadata"]["threshold"] for each in triggers] == ["500", "2"]
    assert triggers[0]["metadata"]["query"] == (
        "histogram_quantile(0.95, sum by (le) (rate(envoy_cluster_upstream_rq_time_bucket"
        '{namespace="team",envoy_cluster_name="server/model",pod=~"web-gateway-.*"}[1m])))'
    )


@pytest.mark.parametrize(
    ("built", "problem", "is_left"),
    [
        (
            build("HorizontalPodAutoscaler", sla={"latency": "1s"}),
            "autoscaling.sla: not possible with a HorizontalPodAutoscaler",
            False,
        ),
        (
            build("HorizontalPodAutoscaler", metric={"query": "sum(a)", "threshold": 1}),
            "autoscaling.metric.query: a HorizontalPodAutoscaler takes the name of a metric and no "
            "expression: use the scaler ScaledObject",
            False,
        ),
        (
            build("HorizontalPodAutoscaler", minReplicas=0),
            "autoscaling.minReplicas: a HorizontalPodAutoscaler keeps one server: use the scaler "
            "ScaledObject or Builtin",
            True,
        ),
        (
            build("ScaledObject", prometheus=""),
            "autoscaling.metric.prometheus: name a Prometheus here or in the settings of the "
            "installation: a ScaledObject reads its metrics",
            False,
        ),
        (
            build("ScaledObject", schedule=[{"start": "0 8 * * *", "duration": "1h"}]),
            "autoscaling.schedule: only the scaler Builtin follows a schedule",
            True,
        ),
    ],
)
def test_what_another_scaler_cannot_do_is_stated(
    built: ScalerObject, problem: str, is_left: bool
) -> None:
    assert built.problems == (f"spec.servers[model].{problem}",)
    assert (built.body is not None) is is_left


async def test_servers_accept_the_autoscaler(api: Api) -> None:
    built = build(
        "HorizontalPodAutoscaler",
        demand={"inFlightPerReplica": 4},
        metric={"query": "queue_length", "threshold": 2.5},
        scaleUp={"maxReplicas": 2, "period": "1h", "stabilization": "2h"},
    )
    assert built.body is not None
    metadata = {"name": "web-model"}
    async with api.client() as client:
        body = built.body | {"metadata": metadata}
        stored = await client.create(AUTOSCALERS, body, api.namespace)
    wanted, spec = built.body["spec"], stored["spec"]
    for field in ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics"):
        assert spec[field] == wanted[field]
    for direction, rules in wanted["behavior"].items():
        # The server adds what selects among several policies.
        assert spec["behavior"][direction].items() >= rules.items()
