"""Simulated usage: plausible and deterministic."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.local.objects.core import Pod
from kilonova.local.simnodes.usage import simulate_node_usage

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _pod(name: str, *, phase: str = "Running", uid: str = "u", **spec: Any) -> Pod:
    metadata = {"name": name, "uid": uid, "resourceVersion": "1", "namespace": "default"}
    provided: Any = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(provided, Pod)


def _container(name: str, **requests: Any) -> Any:
    return {"name": name, "resources": {"requests": requests}}


def test_container_uses_a_share_of_its_requests() -> None:
    pod = _pod("a", containers=[_container("c", cpu="2", memory="1Gi")])
    usage = simulate_node_usage([pod], NOW).pods[0].containers[0]
    assert usage.name == "c"
    assert 0.2 * 2e9 <= usage.cpu_nanocores <= 0.8 * 2e9
    assert 0.2 * 2**30 <= usage.memory_bytes + 1024 <= 0.8 * 2**30 + 1024
    assert usage.memory_bytes % 1024 == 0


def test_usage_is_deterministic_per_pod() -> None:
    def used(uid: str) -> Any:
        pod = _pod("a", uid=uid, containers=[_container("c", cpu=4, memory="1Gi")])
        return simulate_node_usage([pod], NOW)

    assert used("one") == used("one")
    assert used("one").cpu_nanocores != used("two").cpu_nanocores


def test_container_without_requests_uses_a_little() -> None:
    usage = (
        simulate_node_usage([_pod("a", containers=[_container("c")])], NOW).pods[0].containers[0]
    )
    assert 0 < usage.cpu_nanocores <= 10_000_000
    assert 0 < usage.memory_bytes <= 64 << 20


def test_node_usage_is_the_sum_of_its_pods_plus_overhead() -> None:
    sidecar = {**_container("s", cpu="1"), "restartPolicy": "Always"}
    pods = [
        _pod("a", containers=[_container("c", cpu="1")], initContainers=[sidecar]),
        _pod("b", phase="Pending", containers=[_container("c", cpu="1")]),
        _pod("d", phase="Succeeded", containers=[_container("c", cpu="1")]),
    ]
    usage = simulate_node_usage(pods, NOW)
    assert [(pod.name, [each.name for each in pod.containers]) for pod in usage.pods] == [
        ("a", ["c", "s"])
    ]
    inside = sum(each.cpu_nanocores for each in usage.pods[0].containers)
    assert inside < usage.cpu_nanocores < inside + 100_000_000
    assert simulate_node_usage([], NOW).cpu_nanocores > 0


def test_gpus_are_busy_while_pods_with_them_run() -> None:
    def with_devices(name: str, devices: str, phase: str = "Running") -> Pod:
        pod = _pod(name, phase=phase, uid=name, containers=[_container("c")])
        pod.metadata.annotations["gpu.kilonova.dev/devices"] = devices
        return pod

    pods = [
        with_devices("whole", "0,1"),
        with_devices("half", "3:500"),
        with_devices("invalid", "first"),
        with_devices("done", "2", phase="Succeeded"),
    ]
    readings = simulate_node_usage(pods, NOW).gpus
    assert [each.index for each in readings] == [0, 1, 3]
    assert all(0 < (each.utilisation or 0) <= 1 for each in readings)
    assert (readings[2].utilisation or 1) <= 0.5
    assert simulate_node_usage(pods, NOW).gpus == readings
    assert simulate_node_usage(pods[-1:], NOW).gpus == ()
