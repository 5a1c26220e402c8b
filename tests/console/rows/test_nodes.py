"""Rows of nodes and of their usage."""

import json
from typing import Any

import msgspec
import pytest

from kilonova.console.objects import Node, NodeMetrics
from kilonova.console.rows.nodes import node_row, usage_row
from tests.console.console_page import to_wire

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


def row_on_wire(*args: Any, **kwargs: Any) -> Any:
    return to_wire(node_row(node(*args, **kwargs)))


def ready(status: str = "True", **more: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, **more}


def test_gpu_node_row_has_topology_and_devices() -> None:
    row = row_on_wire(
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
        "nvlinkDomain": "c7",
        "product": "NVIDIA-H100-80GB-HBM3",
        "fabric": "NVSwitch",
        "gpus": 3,
        "gpuMemory": 81559,
        "devices": [{"numa": 0}, {"numa": 0, "healthy": False}, {"numa": 1}],
        "lost": [1],
        "problem": "GPU 1 is lost",
        "taints": ["k=v:NoSchedule"],
        "cpu": 1.5,
        "memory": 4 << 30,
        "maxPods": 110,
        "price": 6.88,
        "nodePrice": 20.64,
    }


def test_row_of_a_node_identifies_its_devices() -> None:
    topology = {
        "sms": 132,
        "mig": "H100-80GB",
        "gpus": [
            {"uuid": "GPU-0", "pci": "0000:18:00.0"},
            {
                "uuid": "GPU-1",
                "migEnabled": True,
                "instances": [{"uuid": "MIG-0", "profile": "1g.10gb", "start": 4}],
            },
            {"uuid": "GPU-2", "sms": 114, "healthy": False, "reason": "XID 79"},
        ],
    }
    row = row_on_wire(annotations={"gpu.kilonova.dev/topology": json.dumps(topology)})
    assert (row["gpuSms"], row["mig"], row["devices"]) == (132, True, topology["gpus"])


def test_gpus_of_a_node_are_limited() -> None:
    assert row_on_wire(status={"capacity": {"nvidia.com/gpu": "1e15"}})["gpus"] == 1024


def test_unknown_fields_are_omitted() -> None:
    assert row_on_wire(status={"conditions": [ready()]}) == {
        "id": "n1",
        "ready": True,
        "state": "Ready",
        "cpu": 0.0,
        "memory": 0,
    }


@pytest.mark.parametrize(
    ("conditions", "is_ready", "problem"),
    [
        ([], False, "the kubelet has not reported a Ready condition"),
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
        ([ready(), {"type": "GPUHealthy", "status": "True", "message": "all healthy"}], True, None),
        (
            [ready(), {"type": "GPUHealthy", "status": "False", "message": "GPU 3: XID 79"}],
            True,
            "GPUHealthy: GPU 3: XID 79",
        ),
        (
            [ready(), {"type": "GPUHealthy", "status": "Unknown", "message": "no driver"}],
            True,
            "GPUHealthy: no driver",
        ),
        ([ready(), {"type": "MemoryPressure", "status": "False", "message": "fine"}], True, None),
    ],
)
def test_problems_are_described(
    conditions: list[dict[str, str]], is_ready: bool, problem: str | None
) -> None:
    row = row_on_wire(status={"conditions": conditions})
    assert (row["ready"], row.get("problem")) == (is_ready, problem)


def test_reason_of_a_lost_gpu_is_given_once() -> None:
    topology = {"gpus": [{"healthy": False, "reason": "XID 79"}]}
    condition = {"type": "GPUHealthy", "status": "False", "message": "GPU 0: XID 79"}
    row = row_on_wire(
        annotations={"gpu.kilonova.dev/topology": json.dumps(topology)},
        status={"conditions": [ready(), condition]},
    )
    assert row["problem"] == "GPUHealthy: GPU 0: XID 79; GPU 0 is lost"


@pytest.mark.parametrize(
    ("topology", "fabric"),
    [
        ({"gpus": [{}, {}], "links": [[0, 1, 100]]}, "NVLink"),
        ({"gpus": [{"port": 900}]}, "NVSwitch"),
        ({"gpus": [{}]}, None),
    ],
)
def test_fabric_follows_the_topology_annotation(topology: Any, fabric: str | None) -> None:
    row = row_on_wire(annotations={"gpu.kilonova.dev/topology": json.dumps(topology)})
    assert row.get("fabric") == fabric


def test_unreadable_annotation_leaves_other_fields() -> None:
    row = row_on_wire(
        annotations={"gpu.kilonova.dev/topology": "{"},
        labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"},
        status={"capacity": {"nvidia.com/gpu": "4"}, "allocatable": {"cpu": "much"}},
    )
    assert (row["gpus"], row["gpuMemory"], row["price"], row["cpu"]) == (4, 15360, 0.526, 0.0)


H100_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
EIGHT_GPUS = {"capacity": {"nvidia.com/gpu": "8"}}
GPU_PRICE, NODE_PRICE = "kilonova.dev/gpu-hourly-price", "kilonova.dev/node-hourly-price"


@pytest.mark.parametrize(
    ("labels", "annotations", "prices"),
    [
        pytest.param(H100_LABELS, {}, (6.88, 55.04), id="catalog"),
        pytest.param({**H100_LABELS, GPU_PRICE: "2.5"}, {}, (2.5, 20.0), id="label"),
        pytest.param(
            {**H100_LABELS, GPU_PRICE: "2.5"},
            {GPU_PRICE: "0"},
            (0.0, 0.0),
            id="annotation before label",
        ),
        pytest.param(H100_LABELS, {NODE_PRICE: "20"}, (2.5, 20.0), id="price of the node"),
        pytest.param({**H100_LABELS, GPU_PRICE: "cheap"}, {}, (6.88, 55.04), id="invalid"),
        pytest.param(
            {
                **H100_LABELS,
                "node.kubernetes.io/instance-type": "p5.48xlarge",
                "karpenter.sh/capacity-type": "spot",
            },
            {},
            (2.535, 20.28),
            id="machine type on the spot market",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-GB200"}, {}, (10.5, 84.0), id="GB200 has a price"
        ),
        pytest.param({"nvidia.com/gpu.product": "Abacus"}, {}, (None, None), id="unknown"),
    ],
)
def test_price_by_annotation_then_label_then_catalog(
    labels: dict[str, str],
    annotations: dict[str, str],
    prices: tuple[float | None, float | None],
) -> None:
    row = row_on_wire(labels=labels, annotations=annotations, status=EIGHT_GPUS)
    assert (row.get("price"), row.get("nodePrice")) == prices


def test_node_without_gpus_has_the_price_of_its_machine_type() -> None:
    row = row_on_wire(labels={"node.kubernetes.io/instance-type": "m7i.large"})
    assert (row["machine"], row["nodePrice"], row.get("price")) == ("m7i.large", 0.1008, None)


def test_usage_is_a_share_of_allocatable() -> None:
    metrics = msgspec.convert(
        {"metadata": {"name": "n1"}, "usage": {"cpu": "250m", "memory": "1Gi"}}, NodeMetrics
    )
    allocatable_node = node(status={"allocatable": {"cpu": "1", "memory": "4Gi"}})
    assert to_wire(usage_row(metrics, allocatable_node)) == {
        "id": "n1",
        "cpu": 0.25,
        "memory": 0.25,
    }
    assert usage_row(metrics, None).cpu == 0.0


@pytest.mark.parametrize("price", ["1e308", "1e999", "inf", "nan", "-1", "10000.01"])
def test_invalid_price_counts_as_none(price: str) -> None:
    assert "price" not in row_on_wire(labels={GPU_PRICE: price}, status=EIGHT_GPUS)
    row = row_on_wire(labels=H100_LABELS, annotations={GPU_PRICE: price}, status=EIGHT_GPUS)
    assert row["price"] == 6.88


def test_reason_of_a_lost_gpu_is_a_problem_of_its_node() -> None:
    topology = {"gpus": [{}, {"healthy": False, "reason": "Xid 79 on GPU 1: fallen off the bus"}]}
    row = row_on_wire(
        annotations={"gpu.kilonova.dev/topology": json.dumps(topology)},
        status={"conditions": [ready()]},
    )
    assert row["problem"] == "GPU 1 is lost; Xid 79 on GPU 1: fallen off the bus"
