"""Autoscalers on simulated nodes, with metrics set by the test, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kilonova.api.crds import load_definitions
from kilonova.api.times import format_rfc3339
from kilonova.component.embedded import EmbeddedContext
from kilonova.kube import Client, InProcessTransport, Runnable
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from kilonova.scheduler.embedded import build_embedded_scheduler
from tests.local.embedded_cluster import (
    DEFINITIONS,
    EVENTS,
    PODS,
    LoopClock,
    advance_time,
    definition,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

AUTOSCALERS = unstructured_resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
)
SETS = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet", True)
Answer = Callable[[Request], Any]


class MeteredCluster(EmbeddedCluster):
    """A cluster that serves some metrics beside everything else."""

    answer: Answer = staticmethod(lambda _: None)

    def client(self, user: str) -> Client:
        identity = User(user, groups=("system:masters", "system:authenticated"))

        async def answer(request: Request) -> Reply | StreamReply:
            found = self.answer(request)
            if found is not None:
                return Reply(200, msgspec.json.encode(found), {})
            return await self.api.handle(request, identity)

        return Client(InProcessTransport(answer), field_manager="test")


@asynccontextmanager
async def metered_cluster() -> AsyncGenerator[MeteredCluster]:
    group = NodeGroup("n", 4, cpu=64, memory="64Gi", stop="1s")
    settings = ClusterSettings(port=None, fleet=Fleet(nodes=(group,)))

    def build_scheduler(cluster: EmbeddedCluster) -> Sequence[Runnable]:
        context = EmbeddedContext("scheduler", cluster, {})
        return build_embedded_scheduler(context).build_runnables()

    cluster = MeteredCluster(
        settings,
        clock=LoopClock(),
        definitions=load_definitions(),
        components={"scheduler": build_scheduler},
    )
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield cluster
    finally:
        await cluster.stop()


@pytest.fixture
async def cluster() -> AsyncIterator[MeteredCluster]:
    async with metered_cluster() as found:
        yield found


def uses(cluster: MeteredCluster, cpu: Callable[[], str]) -> None:
    """Every pod of the test uses so much CPU."""

    def answer(request: Request) -> Any:
        if not request.path.startswith("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"):
            return None
        collection = cluster.store.collection("pods")
        now = format_rfc3339(cluster.clock.now())
        return {
            "items": [
                {
                    "metadata": {"name": entry.key.partition("/")[2]},
                    "timestamp": now,
                    "window": "30s",
                    "containers": [{"name": "main", "usage": {"cpu": cpu(), "memory": "64Mi"}}],
                }
                for entry in collection.range_entries("default")
            ]
        }

    cluster.answer = answer


def replica_set(replicas: int, **requests: str) -> Any:
    labels = {"app": "web"}
    container = {
        "name": "main",
        "image": "img",
        "resources": {"requests": requests or {"cpu": "1"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def autoscaler(*metrics: Any, most: int = 10, **spec: Any) -> Any:
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": target,
            "maxReplicas": most,
            "metrics": list(metrics) or [cpu_percent(50)],
            **spec,
        },
    }


def cpu_percent(percent: int) -> Any:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


async def replicas(client: Client) -> int:
    return (await client.get(SETS, "web", "default"))["spec"]["replicas"]


async def wait_scaled_to(client: Client, count: int, *, within: float = 400) -> None:
    async def so() -> bool:
        return await replicas(client) == count

    await wait_for_condition(so, within=within, every=1)


async def conditions(client: Client) -> dict[str, tuple[str, str]]:
    status = (await client.get(AUTOSCALERS, "web", "default")).get("status", {})
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


async def read_events(client: Client) -> list[tuple[str, str]]:
    await advance_time()
    found = (await client.list(EVENTS, "default")).items
    return [
        (each["reason"], each["message"])
        for each in found
        if each["involvedObject"]["kind"] == "HorizontalPodAutoscaler"
    ]


async def test_scales_up_at_once_and_down_after_five_minutes(
    cluster: MeteredCluster,
) -> None:
    client = cluster.client("test")
    now = {"cpu": "900m"}
    uses(cluster, lambda: now["cpu"])
    await client.create(SETS, replica_set(2), "default")
    await asyncio.sleep(60)
    await client.create(AUTOSCALERS, autoscaler(), "default")
    await wait_scaled_to(client, 4)
    await wait_scaled_to(client, 8)
    await wait_scaled_to(client, 10)
    await advance_time(60)
    found = await conditions(client)
    assert found["AbleToScale"] == ("True", "ReadyForNewScale")
    assert found["ScalingActive"] == ("True", "ValidMetricFound")
    assert found["ScalingLimited"] == ("True", "TooManyReplicas")
    status = (await client.get(AUTOSCALERS, "web", "default"))["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (10, 10)
    assert status["currentMetrics"] == [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "current": {"averageUtilization": 90, "averageValue": "900m"},
            },
        }
    ]
    reason = "cpu resource utilization (percentage of request) above target"
    assert ("SuccessfulRescale", f"New size: 4; reason: {reason}") in await read_events(client)
    now["cpu"] = "100m"
    await advance_time(240)
    assert await replicas(client) == 10
    assert (await conditions(client))["AbleToScale"] == ("True", "ScaleDownStabilized")
    await wait_scaled_to(client, 2)
    assert (
        "SuccessfulRescale",
        "New size: 2; reason: All metrics below target",
    ) in await read_events(client)


async def test_bounds_hold_without_metrics(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    await client.create(SETS, replica_set(20), "default")
    await client.create(AUTOSCALERS, autoscaler(most=5), "default")
    await wait_scaled_to(client, 5)
    assert (
        "SuccessfulRescale",
        "New size: 5; reason: Current number of replicas above Spec.MaxReplicas",
    ) in await read_events(client)


async def test_policy_limits_the_scaling_rate(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    uses(cluster, lambda: "2")
    await client.create(SETS, replica_set(1), "default")
    await asyncio.sleep(60)
    rules = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    await client.create(AUTOSCALERS, autoscaler(behavior={"scaleUp": rules}), "default")
    await wait_scaled_to(client, 2)
    await advance_time(40)
    assert await replicas(client) == 2
    assert (await conditions(client))["ScalingLimited"] == ("True", "ScaleUpLimit")
    await wait_scaled_to(client, 3, within=60)


async def test_target_scaled_to_zero_is_left_alone(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    await client.create(SETS, replica_set(0), "default")
    await client.create(AUTOSCALERS, autoscaler(), "default")
    await advance_time(40)
    assert await replicas(client) == 0
    assert (await conditions(client))["ScalingActive"] == ("False", "ScalingDisabled")


@pytest.mark.parametrize(
    ("metric", "reason", "text"),
    [
        (
            cpu_percent(50),
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: "
            "unable to fetch metrics from resource metrics API",
        ),
        (
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "qps"},
                    "target": {"type": "AverageValue", "averageValue": "5"},
                },
            },
            "FailedGetPodsMetric",
            "unable to get metric qps: unable to fetch metrics from custom metrics API: "
            "no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue"},
                    "target": {"type": "Value", "value": "5"},
                },
            },
            "FailedGetExternalMetric",
            "failed to get external metric queue: unable to get external metric "
            "default/queue/nil: unable to fetch metrics from external metrics API",
        ),
    ],
)
async def test_missing_metrics_are_reported(
    cluster: MeteredCluster, metric: Any, reason: str, text: str
) -> None:
    client = cluster.client("test")

    def nothing(request: Request) -> Any:
        if request.path.startswith("/apis/metrics.k8s.io"):
            return {"items": []}
        return None

    cluster.answer = nothing
    await client.create(SETS, replica_set(2), "default")
    await client.create(AUTOSCALERS, autoscaler(metric), "default")
    await advance_time(40)
    found = (await client.get(AUTOSCALERS, "web", "default"))["status"]["conditions"]
    (active,) = [each for each in found if each["type"] == "ScalingActive"]
    assert (active["status"], active["reason"]) == ("False", reason)
    start = "the HPA was unable to compute the replica count: "
    expected = text.replace(
        "unable to fetch metrics from resource metrics API",
        "no metrics returned from resource metrics API",
    )
    assert active["message"].startswith(start + expected)
    assert reason in {each for each, _ in await read_events(client)}
    assert await replicas(client) == 2


async def test_external_and_object_metrics_scale_custom_kinds(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    kind = definition("example.com", "Farm", "farms")
    (version,) = kind["spec"]["versions"]
    version["subresources"] = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    await client.create(DEFINITIONS, kind)
    farms = unstructured_resource("example.com", "v1", "farms", "Farm", True)
    await client.create(farms, {"metadata": {"name": "f"}, "spec": {"replicas": 2}}, "default")
    reported = {"status": {"replicas": 2, "selector": "app=farm"}}
    await client.patch(farms, "f", reported, "default", subresource="status")

    def answer(request: Request) -> Any:
        if request.path == "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue":
            return {"items": [{"metricName": "queue", "value": "30"}, {"value": "10"}]}
        return None

    cluster.answer = answer
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "queue"},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    }
    desired = autoscaler(metric)
    desired["spec"]["scaleTargetRef"] = {
        "apiVersion": "example.com/v1",
        "kind": "Farm",
        "name": "f",
    }
    await client.create(AUTOSCALERS, desired, "default")

    async def grown() -> bool:
        return (await client.get(farms, "f", "default"))["spec"]["replicas"] == 4

    await wait_for_condition(grown)


async def test_missing_scale_target_is_reported(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    await client.create(AUTOSCALERS, autoscaler(), "default")
    await advance_time(20)
    found = (await client.get(AUTOSCALERS, "web", "default"))["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in found] == [
        ("AbleToScale", "False", "FailedGetScale")
    ]
    assert found[0]["message"].endswith('replicasets.apps "web" not found')


async def test_an_unchanged_autoscaler_is_not_written(cluster: MeteredCluster) -> None:
    client = cluster.client("test")
    uses(cluster, lambda: "500m")
    await client.create(SETS, replica_set(2), "default")
    await client.create(AUTOSCALERS, autoscaler(), "default")
    await asyncio.sleep(400)
    before = await client.get(AUTOSCALERS, "web", "default")
    await asyncio.sleep(400)
    assert await client.get(AUTOSCALERS, "web", "default") == before
    assert len((await client.list(PODS, "default")).items) == 2
