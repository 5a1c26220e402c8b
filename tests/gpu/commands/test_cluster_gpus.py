"""`kilonova gpu list` and `slices`: from nodes, pods and metrics to rows."""

from typing import Any

import msgspec

from kilonova.api.gpu.annotations import DEVICES, TOPOLOGY, format_topology
from kilonova.api.gpu.health import HealthRecord
from kilonova.api.gpu.metrics import ANNOTATION, GpuReading, InstanceReading, format_readings
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.commands.cluster.gpus import ClusterView, NodeView, PodView, build_view
from tests.gpu.agent.builders import machine, with_instances

INVENTORY = with_instances(machine("h100:2"), 1, "1g.10gb@0", "3g.40gb@4")


def view_of(name: str, annotation: str, text: str) -> NodeView:
    body: Any = {"metadata": {"name": name, "annotations": {annotation: text}}}
    return msgspec.convert(body, NodeView)


def pod_of(name: str, devices: str, phase: str = "Running") -> PodView:
    body: Any = {
        "metadata": {"name": name, "namespace": "team", "annotations": {DEVICES: devices}},
        "spec": {"nodeName": "a"},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, PodView)


def build(*pods: PodView, readings: tuple[GpuReading, ...] = ()) -> ClusterView:
    record = HealthRecord("Unhealthy", "XID 48", "2026-05-01T12:00:00Z")
    topology = build_topology(INVENTORY, {INVENTORY.devices[0].uuid: record})
    metrics = [view_of("a", ANNOTATION, format_readings(readings))]
    return build_view([view_of("a", TOPOLOGY, format_topology(topology))], pods, metrics)


def test_gpus_with_health_instances_holders_and_readings() -> None:
    reading = GpuReading(1, 0.5, 2048, 300, 60)
    view = build(pod_of("x", "1:1g.10gb@0"), pod_of("y", "0"), readings=(reading,))
    first, second = view.gpus
    assert (first.healthy, first.reason, first.holders) == (False, "XID 48", ("team/y",))
    assert (first.model, first.memory_mib) == ("NVIDIA-H100-80GB-HBM3", 81559)
    assert (second.mig_instances, second.holders) == (("1g.10gb@0", "3g.40gb@4"), ("team/x",))
    assert (second.utilisation, second.memory_used_mib, second.power_watts) == (0.5, 2048, 300)
    assert first.utilisation is None


def test_slices_are_allocated_available_creating_or_shared() -> None:
    pods = [pod_of("x", "1:1g.10gb@0"), pod_of("y", "1:1g.10gb@1"), pod_of("z", "0:500/250")]
    instance = InstanceReading("1g.10gb", 0, 0.75, 512)
    view = build(*pods, readings=(GpuReading(1, instances=(instance,)),))
    assert [(each.profile, each.start, each.state, each.holder) for each in view.slices] == [
        ("500/250", None, "Shared", "team/z"),
        ("1g.10gb", 0, "Allocated", "team/x"),
        ("3g.40gb", 4, "Available", ""),
        ("1g.10gb", 1, "Creating", "team/y"),
    ]
    assert (view.slices[1].utilisation, view.slices[1].memory_gb) == (0.75, 10)


def test_pods_that_have_ended_hold_nothing() -> None:
    view = build(pod_of("x", "1:1g.10gb@0", "Succeeded"))
    assert view.gpus[1].holders == ()
    assert [each.state for each in view.slices] == ["Available", "Available"]


def test_invalid_annotation_is_told_and_does_not_hide_other_nodes() -> None:
    view = build_view([view_of("b", TOPOLOGY, "{")], [])
    assert view.gpus == ()
    assert view.problems[0].startswith("node b: annotation gpu.kilonova.dev/topology")
