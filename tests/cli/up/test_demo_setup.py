"""The demo: its workloads, that it is applied once, and that deleted objects stay deleted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.cli.command import Kilonova
from tests.harness.kubectl import CommandResult, Kubectl

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def demo_data(cluster_command: Kilonova) -> Iterator[Path]:
    """The data directory of a cluster with the demo."""
    data = cluster_command.home / "demo"
    done = cluster_command.detach(data, "--process-node")
    assert done.code == 0, done.err
    assert "kilonova why -n demo frontier-0" in done.out
    assert "kilonova serve bench -n demo assistant" in done.out
    yield data
    cluster_command("down", "--data", data)


@pytest.fixture
def kubectl(cluster_command: Kilonova, demo_data: Path, kubectl_path: Path) -> Kubectl:
    return Kubectl(kubectl_path, demo_data / "kubeconfig", cluster_command.home)


def test_the_inference_service_runs_in_one_nvlink_domain(kubectl: Kubectl):
    assert wait_for(kubectl, "pcs/chat", "{.status.availableReplicas}", "1").code == 0
    engines = [
        pod
        for pod in list_objects(kubectl, "pods", "-l app.kubernetes.io/part-of=chat")
        if "engine" in pod["metadata"]["name"]
    ]
    nodes = {each["metadata"]["name"]: each for each in list_objects(kubectl, "nodes")}
    domains = {
        nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]["nvidia.com/gpu.clique"]
        for pod in engines
    }
    assert (len(engines), len(domains)) == (6, 1)


def test_some_jobs_run_and_others_wait_for_the_limit_of_their_queue(
    cluster_command: Kilonova, demo_data: Path, kubectl: Kubectl
):
    allocated = r"{.status.allocated.nvidia\.com/gpu}"
    assert wait_for(kubectl, "queue/research", allocated, "16").code == 0
    pods = list_objects(kubectl, "pods", "-l scheduling.kilonova.dev/queue=research")
    waiting = [pod["metadata"]["name"] for pod in pods if "nodeName" not in pod["spec"]]
    assert len(waiting) == 2
    why = cluster_command("why", "-n", "demo", waiting[0], "--data", demo_data)
    assert 'queue "research" may use 16 nvidia.com/gpu' in why.out


def test_unschedulable_gang_reports_missing_capacity(
    cluster_command: Kilonova, demo_data: Path, kubectl: Kubectl
):
    assert wait_for(kubectl, "pcs/chat", "{.status.availableReplicas}", "1").code == 0
    assert kubectl("wait -n demo podgang/frontier-0 --for=condition=Unschedulable").code == 0
    why = cluster_command("why", "-n", "demo", "frontier-0", "--data", demo_data)
    assert "Gang demo/frontier-0 (queue default) is pending." in why.out
    assert "needs 24 pods, but only 1" in why.out
    assert "Smallest change: lower the minimum of group frontier-0-worker" in why.out
    assert "add 6 nodes like nvl72-" in why.out or "add 12 nodes like nvl72-" in why.out


def test_inference_service_of_the_demo_answers_clients_of_this_machine(
    demo_data: Path, kubectl: Kubectl
):
    assert wait_for(kubectl, "isvc/assistant", "{.status.phase}", "Ready").code == 0
    url = kubectl("get isvc -n demo assistant -o jsonpath={.status.url}").out.strip()
    question = {"model": "demo", "prompt": "Hello", "max_tokens": 3}
    with urlopen(Request(f"{url}/v1/completions", json.dumps(question).encode(), JSON)) as reply:
        assert json.load(reply)["usage"]["completion_tokens"] == 3


def test_why_of_a_set_explains_its_gangs(cluster_command: Kilonova, demo_data: Path):
    done = cluster_command("why", "-n", "demo", "frontier", "--data", demo_data)
    assert done.code == 0, done.err
    assert "Gang demo/frontier-0 (queue default) is pending." in done.out


def test_deleted_objects_of_the_demo_stay_deleted(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path
):
    data = tmp_path / "data"
    kilonova.detach(data)
    kubectl = Kubectl(kubectl_path, data / "kubeconfig", tmp_path)
    assert kubectl("delete -n demo pcs/frontier --timeout=30s").code == 0
    kilonova("down", "--data", data)
    again = kilonova.detach(data)
    assert "frontier" not in again.out
    assert [each["metadata"]["name"] for each in list_objects(kubectl, "pcs")] == [
        "chat",
        "pretrain",
    ]
    kilonova("down", "--data", data)


def test_interrupted_demo_setup_is_completed(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path
):
    """The marker is created last: without it, objects of the demo may be missing."""
    data = tmp_path / "data"
    kilonova.detach(data)
    kubectl = Kubectl(kubectl_path, data / "kubeconfig", tmp_path)
    assert kubectl("delete -n demo job/distill --timeout=30s").code == 0
    assert kubectl("delete -n kube-system configmap/kilonova-demo").code == 0
    kilonova("down", "--data", data)
    kilonova.detach(data)
    assert "distill" in kubectl("get jobs -n demo -o name").out
    kilonova("down", "--data", data)


@pytest.mark.parametrize(
    "options", [("--no-demo", "--nodes", "small"), ("--nodes", "fleet.yaml"), ("--no-operator",)]
)
def test_no_demo_when_disabled_or_not_runnable(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path, options: tuple[str, ...]
):
    (tmp_path / "fleet.yaml").write_text("nodes: [{name: small, count: 3}]")
    done = kilonova.detach(tmp_path / "data", *options)
    assert "kubectl run hello --image=busybox\n" in done.out
    kubectl = Kubectl(kubectl_path, tmp_path / "data" / "kubeconfig", tmp_path)
    assert "not found" in kubectl("get namespace demo").err


@pytest.mark.parametrize("options", [("--process-node", "--without", "serving"), ()])
def test_demo_has_no_service_without_what_serves_it(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path, options: tuple[str, ...]
):
    done = kilonova.detach(tmp_path / "data", *options)
    assert "kilonova why -n demo frontier-0" in done.out
    assert "assistant" not in done.out
    kubectl = Kubectl(kubectl_path, tmp_path / "data" / "kubeconfig", tmp_path)
    assert kubectl("get pcs -n demo frontier").code == 0
    kilonova("down", "--data", tmp_path / "data")


def test_demo_waits_while_its_nodes_are_absent(
    kilonova: Kilonova, tmp_path: Path, kubectl_path: Path
):
    data = tmp_path / "data"
    (tmp_path / "fleet.yaml").write_text("nodes: [{name: other, count: 1}]")
    kubectl = Kubectl(kubectl_path, data / "kubeconfig", tmp_path)
    kilonova.detach(data)
    assert wait_for(kubectl, "pcs/chat", "{.status.availableReplicas}", "1").code == 0
    kilonova("down", "--data", data)
    kilonova.detach(data, "--nodes", "fleet.yaml")
    assert [each["metadata"]["name"] for each in list_objects(kubectl, "nodes")] == ["other-0"]
    # Those of the nodes that are gone are deleted.
    placed = "--field-selector=spec.nodeName!="
    gone = kubectl(f"wait pods -n demo {placed} --for=delete --timeout=60s")
    assert gone.code == 0, gone.err
    assert list_objects(kubectl, "pods", placed) == []
    kilonova("down", "--data", data)
    kilonova.detach(data)
    assert wait_for(kubectl, "pcs/chat", "{.status.availableReplicas}", "1").code == 0
    kilonova("down", "--data", data)


def list_objects(kubectl: Kubectl, what: str, options: str = "") -> list[dict[str, Any]]:
    return json.loads(kubectl(f"get {what} -n demo -o json {options}").out)["items"]


def wait_for(kubectl: Kubectl, what: str, path: str, value: str) -> CommandResult:
    until = f"--for=jsonpath={path}={value}"
    return kubectl(["wait", "-n", "demo", what, until, "--timeout=50s"])
