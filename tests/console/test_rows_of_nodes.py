"""What the page shows of a node, and of what it uses."""

import json
from typing import Any

import msgspec
import pytest

from kilonova.console.noderows import node_row, usage_row
from kilonova.console.objects import Node, NodeMetrics
from kilonova.console.prices import list_price
from tests.console.looking import on_the_wire

TOPOLOGY = {
    "product": "NVIDIA-H100-80GB-HBM3",
    "memory": 81559,
    "port": 900,
    "gpus": [{"numa": 0}, {"numa": 0, "healthy": False}, {"numa": 1}],
}


def node(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: Any = None,
    status: Any = None,
) -> Node:
    metadata = {"name": "n1", "labels": labels or {}, "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": spec or {}, "status": status or {}}
    return msgspec.json.decode(json.dumps(body), type=Node)


def shown(*args: Any, **kwargs: Any) -> Any:
    return on_the_wire(node_row(node(*args, **kwargs)))


def ready(status: str = "True", **more: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, **more}


def test_a_node_of_gpus_is_shown_with_its_place_and_its_devices() -> None:
    row = shown(
        labels={
            "topology.kubernetes.io/zone": "zone-a",
            "kilonova.dev/block": "b0",
            "kilonova.dev/rack": "r3",
            "kilonova.dev/node-kind": "sim",
            "nvidia.com/gpu.clique": "c7",
        },
        annotations={"gpu.kilonova.dev/topology": json.dumps(TOPOLOGY)},
        spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        status={
            "capacity": {"nvidia.com/gpu": "3"},
            "allocatable": {"cpu": "1500m", "memory": "4Gi", "pods": "110"},
            "conditions": [ready()],
        },
    )
    assert row == {
        "id": "n1",
        "ready": True,
        "state": "Ready,GPULost",
        "zone": "zone-a",
        "block": "b0",
        "rack": "r3",
        "kind": "sim",
        "clique": "c7",
        "product": "NVIDIA-H100-80GB-HBM3",
        "fabric": "NVSwitch",
        "gpus": 3,
        "memory": 81559,
        "lost": [1],
        "problem": "GPU 1 is lost",
        "taints": ["k=v:NoSchedule"],
        "cpu": 1.5,
        "ram": 4 << 30,
        "maxPods": 110,
        "price": 6.88,
    }


def test_no_node_has_more_gpus_than_can_be_drawn() -> None:
    assert shown(status={"capacity": {"nvidia.com/gpu": "1e15"}})["gpus"] == 1024


def test_what_is_not_known_is_left_out() -> None:
    assert shown(status={"conditions": [ready()]}) == {
        "id": "n1",
        "ready": True,
        "state": "Ready",
        "cpu": 0.0,
        "ram": 0,
    }


@pytest.mark.parametrize(
    ("conditions", "is_ready", "problem"),
    [
        ([], False, "its kubelet has not said that it is ready"),
        ([ready("Unknown", message="it stopped posting")], False, "it stopped posting"),
        ([ready("False", reason="KubeletNotReady")], False, "KubeletNotReady"),
        (
            [ready(), {"type": "DiskPressure", "status": "True", "message": "disk is full"}],
            True,
            "DiskPressure: disk is full",
        ),
        (
            [ready(), {"type": "NetworkingReady", "status": "False", "message": "no route"}],
            True,
            "NetworkingReady: no route",
        ),
        ([ready(), {"type": "StorageReady", "status": "True", "message": "fine"}], True, None),
        ([ready(), {"type": "MemoryPressure", "status": "False", "message": "fine"}], True, None),
    ],
)
def test_what_is_wrong_is_said_in_words(
    conditions: list[dict[str, str]], is_ready: bool, problem: str | None
) -> None:
    row = shown(status={"conditions": conditions})
    assert (row["ready"], row.get("problem")) == (is_ready, problem)


@pytest.mark.parametrize(
    ("topology", "fabric"),
    [
        ({"gpus": [{}, {}], "links": [[0, 1, 100]]}, "NVLink"),
        ({"gpus": [{"port": 900}]}, "NVSwitch"),
        ({"gpus": [{}]}, None),
    ],
)
def test_the_fabric_is_that_of_the_topology(topology: Any, fabric: str | None) -> None:
    row = shown(annotations={"gpu.kilonova.dev/topology": json.dumps(topology)})
    assert row.get("fabric") == fabric


def test_an_annotation_that_says_nothing_takes_nothing_else_away() -> None:
    row = shown(
        annotations={"gpu.kilonova.dev/topology": "{"},
        labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"},
        status={"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"cpu": "much"}},
    )
    assert (row["gpus"], row["memory"], row["price"], row["cpu"]) == (4, 15360, 0.53, 0.0)


@pytest.mark.parametrize(
    ("product", "price"),
    [
        ("NVIDIA-H100-80GB-HBM3", 6.88),
        ("NVIDIA-H200", 7.91),
        ("NVIDIA-A100-SXM4-80GB", 3.43),
        ("NVIDIA-A100-SXM4-40GB", 2.74),
        ("NVIDIA-L4", 0.80),
        ("NVIDIA-L40S", 1.86),
        ("Tesla-T4", 0.53),
        ("NVIDIA-A10G", 1.01),
        ("NVIDIA-B200", 14.24),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 3.36),
        ("NVIDIA-GB200", None),
        ("", None),
    ],
)
def test_list_prices_go_by_the_product(product: str, price: float | None) -> None:
    assert list_price(product) == price


def test_a_node_can_state_its_own_price() -> None:
    own = "kilonova.dev/gpu-hourly-price"
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert shown(labels={**labels, own: "2.5"})["price"] == 2.5
    assert shown(labels=labels, annotations={own: "0"})["price"] == 0.0
    assert shown(labels={**labels, own: "cheap"})["price"] == 6.88


def test_usage_is_a_share_of_what_pods_can_have() -> None:
    metrics = msgspec.convert(
        {"metadata": {"name": "n1"}, "usage": {"cpu": "250m", "memory": "1Gi"}}, NodeMetrics
    )
    room = node(status={"allocatable": {"cpu": "1", "memory": "4Gi"}})
    assert on_the_wire(usage_row(metrics, room)) == {
        "id": "n1",
        "cpu": 0.25,
        "memory": 0.25,
    }
    assert usage_row(metrics, None).cpu == 0.0


@pytest.mark.parametrize("absurd", ["1e308", "1e999", "inf", "nan", "-1", "10000.01"])
def test_a_price_that_cannot_be_counts_as_none(absurd: str) -> None:
    own = "kilonova.dev/gpu-hourly-price"
    assert "price" not in shown(labels={own: absurd})
    listed = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert shown(labels=listed, annotations={own: absurd})["price"] == 6.88
