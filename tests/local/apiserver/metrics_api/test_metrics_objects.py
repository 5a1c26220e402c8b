"""NodeMetrics and PodMetrics as metrics-server writes them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kilonova.api.gpu.metrics import GpuReading
from kilonova.local.apiserver.metrics_api.objects import format_window, node_metrics, pod_metrics
from kilonova.local.kubelet_api import ContainerUsage, NodeUsage, PodUsage

NOW = datetime(2026, 5, 1, tzinfo=UTC)
THEN = datetime(2026, 4, 30, 23, 59, 50, tzinfo=UTC)
POD = PodUsage("default", "a", (ContainerUsage("c", 123_456_789, 456 << 10),))
USAGE = NodeUsage(THEN, 15.062, 250_000_000, 1_234_567, (POD,))


def test_node_metrics_object() -> None:
    assert node_metrics("n", {"x": "y"}, USAGE, NOW) == {
        "kind": "NodeMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "n",
            "creationTimestamp": "2026-05-01T00:00:00Z",
            "labels": {"x": "y"},
        },
        "timestamp": "2026-04-30T23:59:50Z",
        "window": "15.062s",
        "usage": {"cpu": "250m", "memory": "1234567"},
    }


def test_metrics_of_gpus_are_an_annotation() -> None:
    usage = replace(USAGE, gpus=(GpuReading(0, 0.5),))
    made = node_metrics("n", {}, usage, NOW)
    assert made["metadata"]["annotations"] == {
        "gpu.kilonova.dev/metrics": '[{"index":0,"utilisation":0.5}]'
    }


def test_pod_metrics_object() -> None:
    made = pod_metrics(POD, {}, USAGE, NOW)
    assert made["metadata"] == {
        "name": "a",
        "namespace": "default",
        "creationTimestamp": "2026-05-01T00:00:00Z",
    }
    assert made["containers"] == [{"name": "c", "usage": {"cpu": "123456789n", "memory": "456Ki"}}]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (15, "15s"),
        (15.06, "15.06s"),
        (0.5, "0.5s"),
        (60, "1m0s"),
        (90.25, "1m30.25s"),
        (3725, "1h2m5s"),
    ],
)
def test_window_is_formatted_as_go_duration(seconds: float, text: str) -> None:
    assert format_window(seconds) == text
