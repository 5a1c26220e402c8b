"""Simulated usage: plausible, and the same at every look."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.local.controllers.objects import Pod
from kilonova.local.nodes.usage import simulated_usage

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _pod(name: str, *, phase: str = "Running", uid: str = "u", **spec: Any) -> Pod:
    metadata = {"name": name, "uid": uid, "resourceVersion": "1", "namespace": "default"}
    given: Any = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(given, Pod)


def _container(name: str, **requests: Any) -> Any:
    return {"name": name, "resources": {"requests": requests}}


def test_a_container_uses_a_share_of_what_it_requested() -> None:
    pod = _pod("a", containers=[_container("c", cpu="2", memory="1Gi")])
    usage = simulated_usage([pod], NOW).pods[0].containers[0]
    assert usage.name == "c"
    assert 0.2 * 2e9 <= usage.cpu_nanocores <= 0.8 * 2e9
    assert 0.2 * 2**30 <= usage.memory_bytes + 1024 <= 0.8 * 2**30 + 1024
    assert usage.memory_bytes % 1024 == 0


def test_the_same_pod_uses_the_same_and_another_something_else() -> None:
    def used(uid: str) -> Any:
        pod = _pod("a", uid=uid, containers=[_container("c", cpu=4, memory="1Gi")])
        return simulated_usage([pod], NOW)

    assert used("one") == used("one")
    assert used("one").cpu_nanocores != used("two").cpu_nanocores


def test_a_container_without_requests_uses_a_little() -> None:
    usage = simulated_usage([_pod("a", containers=[_container("c")])], NOW).pods[0].containers[0]
    assert 0 < usage.cpu_nanocores <= 10_000_000
    assert 0 < usage.memory_bytes <= 64 << 20


def test_a_node_uses_what_its_running_pods_use_and_a_little_more() -> None:
    sidecar = {**_container("s", cpu="1"), "restartPolicy": "Always"}
    pods = [
        _pod("a", containers=[_container("c", cpu="1")], initContainers=[sidecar]),
        _pod("b", phase="Pending", containers=[_container("c", cpu="1")]),
        _pod("d", phase="Succeeded", containers=[_container("c", cpu="1")]),
    ]
    usage = simulated_usage(pods, NOW)
    assert [(pod.name, [each.name for each in pod.containers]) for pod in usage.pods] == [
        ("a", ["c", "s"])
    ]
    inside = sum(each.cpu_nanocores for each in usage.pods[0].containers)
    assert inside < usage.cpu_nanocores < inside + 100_000_000
    assert simulated_usage([], NOW).cpu_nanocores > 0
