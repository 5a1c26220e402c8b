"""kube-scheduler schedules pods on simulated GPU nodes of an embedded cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_cluster import ClientCluster, wait_until
from tests.clients.kube_components import kube_scheduler, list_log_errors
from tests.harness.embedded_server import EmbeddedServer

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
def full_cluster(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    """A cluster on which kube-scheduler has allocated every GPU."""
    folder = tmp_path_factory.mktemp("scheduled")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as server:
        client_cluster = ClientCluster.from_server(server, folder)
        with kube_scheduler(server.access, folder) as scheduler:
            client_cluster.run_kubectl("wait --for=create serviceaccount/default --timeout=30s")
            pods = [_build_pod(f"worker-{number}") for number in range(_NODES * _GPUS)]
            everything = {"apiVersion": "v1", "kind": "List", "items": pods}
            client_cluster.run_kubectl("create -f -", json.dumps(everything))
            yield client_cluster
            assert list_log_errors(scheduler) == []


def test_kube_scheduler_leads_and_allocates_every_gpu(full_cluster: ClientCluster) -> None:
    running = "pods --field-selector=status.phase=Running"
    wait_until(lambda: full_cluster.list_names(running), lambda names: len(names) == _NODES * _GPUS)
    per_node: dict[str, int] = {}
    for pod in full_cluster.get_json("pods")["items"]:
        node = pod["spec"]["nodeName"]
        per_node[node] = per_node.get(node, 0) + 1
    assert per_node == {f"gpu-{number}": _GPUS for number in range(_NODES)}
    lease = full_cluster.get_json("lease kube-scheduler", "kube-system")
    assert lease["spec"]["holderIdentity"]


def test_describe_shows_the_scheduler_of_a_pod(full_cluster: ClientCluster) -> None:
    full_cluster.run_kubectl("wait --for=condition=Ready pod/worker-0 --timeout=60s")
    node = full_cluster.get_json("pod worker-0")["spec"]["nodeName"]
    said = wait_until(
        lambda: full_cluster.run_kubectl("describe pod worker-0"), lambda text: "Scheduled" in text
    )
    assert f"Successfully assigned default/worker-0 to {node}" in said
    assert "default-scheduler" in said


def test_unschedulable_pod_has_a_reason_and_a_higher_priority_pod_preempts(
    full_cluster: ClientCluster,
) -> None:
    running = "pods --field-selector=status.phase=Running"
    wait_until(lambda: full_cluster.list_names(running), lambda names: len(names) == _NODES * _GPUS)
    full_cluster.run_kubectl("create -f -", json.dumps(_build_pod("late")))
    full_cluster.run_kubectl("wait --for=condition=PodScheduled=False pod/late --timeout=30s")
    (condition,) = full_cluster.get_json("pod late")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(
        f"0/{_NODES} nodes are available: {_NODES} Insufficient nvidia.com/gpu."
    )
    late = "events --for=pod/late"
    said = wait_until(
        lambda: full_cluster.run_kubectl(late), lambda text: "FailedScheduling" in text
    )
    assert "Insufficient nvidia.com/gpu" in said

    full_cluster.run_kubectl("create priorityclass urgent --value=1000")
    full_cluster.run_kubectl(
        "create -f -", json.dumps(_build_pod("now", priorityClassName="urgent"))
    )
    full_cluster.run_kubectl("wait --for=condition=Ready pod/now --timeout=60s")
    assert full_cluster.get_json("pod now")["spec"]["priority"] == 1000
    wait_until(
        lambda: full_cluster.list_names("pods"), lambda names: len(names) == _NODES * _GPUS + 1
    )
    preempted = wait_until(
        lambda: full_cluster.run_kubectl("events --types=Normal"), lambda text: "Preempted" in text
    )
    assert "Preempted by pod" in preempted


def _build_pod(name: str, **spec: Any) -> Any:
    limits = {"nvidia.com/gpu": "1"}
    image = "registry.example.com/train"
    container = {"name": "train", "image": image, "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }
