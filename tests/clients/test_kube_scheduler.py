"""A genuine kube-scheduler places pods on simulated GPU nodes of an embedded cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.genuine import complaints, kube_scheduler
from tests.clients.ground import Ground, until
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.harness.embedded import EmbeddedServer

_NODES, _GPUS = 20, 10
_FLEET = f"""
nodes:
  - name: gpu
    count: {_NODES}
    gpu: {{model: NVIDIA-H100-80GB-HBM3, count: {_GPUS}, memory: 80Gi}}
    start: 20ms
    stop: 20ms
"""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A cluster on which kube-scheduler has given every GPU to a pod."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder = tmp_path_factory.mktemp("scheduled")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as server:
        ground = Ground.on(server, folder)
        with kube_scheduler(server.access, folder) as scheduler:
            ground.run("wait --for=create serviceaccount/default --timeout=30s")
            pods = [_pod(f"worker-{number}") for number in range(_NODES * _GPUS)]
            everything = {"apiVersion": "v1", "kind": "List", "items": pods}
            ground.run("create -f -", json.dumps(everything))
            yield ground
            assert complaints(scheduler) == []


def test_it_leads_and_gives_every_gpu_to_a_pod(full: Ground) -> None:
    running = "pods --field-selector=status.phase=Running"
    until(lambda: full.names(running), lambda names: len(names) == _NODES * _GPUS)
    per_node: dict[str, int] = {}
    for pod in full.read("pods")["items"]:
        node = pod["spec"]["nodeName"]
        per_node[node] = per_node.get(node, 0) + 1
    assert per_node == {f"gpu-{number}": _GPUS for number in range(_NODES)}
    lease = full.read("lease kube-scheduler", "kube-system")
    assert lease["spec"]["holderIdentity"]


def test_describe_shows_who_placed_a_pod(full: Ground) -> None:
    full.run("wait --for=condition=Ready pod/worker-0 --timeout=60s")
    node = full.read("pod worker-0")["spec"]["nodeName"]
    said = until(lambda: full.run("describe pod worker-0"), lambda text: "Scheduled" in text)
    assert f"Successfully assigned default/worker-0 to {node}" in said
    assert "default-scheduler" in said


def test_a_pod_too_many_is_told_why_and_a_more_important_one_takes_its_place(full: Ground) -> None:
    running = "pods --field-selector=status.phase=Running"
    until(lambda: full.names(running), lambda names: len(names) == _NODES * _GPUS)
    full.run("create -f -", json.dumps(_pod("late")))
    full.run("wait --for=condition=PodScheduled=False pod/late --timeout=30s")
    (condition,) = full.read("pod late")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(
        f"0/{_NODES} nodes are available: {_NODES} Insufficient nvidia.com/gpu."
    )
    late = "events --for=pod/late"
    said = until(lambda: full.run(late), lambda text: "FailedScheduling" in text)
    assert "Insufficient nvidia.com/gpu" in said

    full.run("create priorityclass urgent --value=1000")
    full.run("create -f -", json.dumps(_pod("now", priorityClassName="urgent")))
    full.run("wait --for=condition=Ready pod/now --timeout=60s")
    assert full.read("pod now")["spec"]["priority"] == 1000
    until(lambda: full.names("pods"), lambda names: len(names) == _NODES * _GPUS + 1)
    preempted = until(lambda: full.run("events --types=Normal"), lambda text: "Preempted" in text)
    assert "Preempted by pod" in preempted


def _pod(name: str, **spec: Any) -> Any:
    limits = {"nvidia.com/gpu": "1"}
    image = "registry.example.com/train"
    container = {"name": "train", "image": image, "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }
