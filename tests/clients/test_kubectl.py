"""kubectl commands that need controllers: drain, rollout, proxy."""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.clients.background_kubectl import read_local_port, running_kubectl
from tests.clients.client_cluster import ClientCluster, wait_until
from tests.conftest import Api
from tests.harness.kubectl import Kubectl

_IMAGE = "registry.example.com/web"


@pytest.fixture
def namespace(client_cluster: ClientCluster, request: pytest.FixtureRequest) -> str:
    return client_cluster.create_namespace(request.node.name.replace("_", "-")[:50].rstrip("-"))


def test_drained_node_is_empty_and_disruption_budgets_are_respected(
    client_cluster: ClientCluster, namespace: str
) -> None:
    def run(command: str) -> str:
        return client_cluster.run_kubectl(command, namespace=namespace)

    run(f"create deployment web --image={_IMAGE} --replicas=3")
    run("create poddisruptionbudget web --selector=app=web --min-available=2")
    run("rollout status deployment web --timeout=60s")
    node = run("get pods -o jsonpath={.items[0].spec.nodeName}")
    said = run(f"drain {node} --timeout=60s --pod-selector=app=web")
    try:
        assert f"node/{node} cordoned" in said
        assert f"node/{node} drained" in said
        assert "SchedulingDisabled" in run(f"get node {node}")
        run("rollout status deployment web --timeout=60s")
        nodes = run("get pods -o jsonpath={.items[*].spec.nodeName}").split()
        assert len(nodes) == 3
        assert node not in nodes
    finally:
        assert run(f"uncordon {node}") == f"node/{node} uncordoned\n"


def test_a_rollout_is_paused_resumed_restarted_and_undone(
    client_cluster: ClientCluster, namespace: str
) -> None:
    def run(command: str) -> str:
        return client_cluster.run_kubectl(command, namespace=namespace)

    run(f"create deployment web --image={_IMAGE}:1 --replicas=2")
    run("rollout status deployment web --timeout=60s")
    run("rollout pause deployment web")
    run(f"set image deployment/web web={_IMAGE}:2")
    waiting = wait_until(
        lambda: client_cluster.get_json("deployment web", namespace),
        lambda found: found["status"]["observedGeneration"] == found["metadata"]["generation"],
    )
    assert waiting["status"].get("updatedReplicas", 0) == 0
    run("rollout resume deployment web")
    assert "successfully rolled out" in run("rollout status deployment web --timeout=60s")
    run("annotate deployment web kubernetes.io/change-cause=second")
    history = wait_until(
        lambda: run("rollout history deployment web"), lambda text: "second" in text
    ).splitlines()
    assert [line.split() for line in history[2:4]] == [["1", "<none>"], ["2", "second"]]
    assert f"{_IMAGE}:1" in run("rollout history deployment web --revision=1")
    run("rollout undo deployment web --to-revision=1")
    run("rollout status deployment web --timeout=60s")
    assert f"{_IMAGE}:1" in run("get deployment web -o wide")
    run("rollout restart deployment web")
    run("rollout status deployment web --timeout=60s")
    wait_until(lambda: client_cluster.list_names("pods", namespace), lambda names: len(names) == 2)


def test_a_dump_of_the_cluster_is_written(client_cluster: ClientCluster, tmp_path: Path) -> None:
    client_cluster.run_kubectl(
        f"cluster-info dump --output-directory={tmp_path} --namespaces=kube-system"
    )
    nodes = json.loads((tmp_path / "nodes.json").read_text())
    assert [node["metadata"]["name"] for node in nodes["items"]] == ["n-0", "n-1", "n-2"]
    assert (tmp_path / "kube-system" / "events.json").exists()


def test_the_api_is_reached_through_kubectls_proxy(api: Api, kubectl: Kubectl) -> None:
    with running_kubectl(kubectl, "proxy --port=0") as said:
        port = read_local_port(said)
        url = f"http://127.0.0.1:{port}/api/v1/namespaces/{api.namespace}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            assert json.load(reply)["metadata"]["name"] == api.namespace


def test_versions_and_contexts_are_reported(api: Api, kubectl: Kubectl) -> None:
    versions = kubectl("api-versions").out.split()
    assert {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"} <= set(versions)
    assert json.loads(kubectl("version -o json").out)["serverVersion"]["minor"] == "36"
    context = kubectl("config current-context").out.strip()
    assert context in kubectl("config get-contexts -o name").out.split()
    assert "client-key-data: DATA+OMITTED" in kubectl("config view").out
    assert kubectl("get --raw /readyz").out == "ok"
    assert "kubectl" in kubectl("completion bash").out
    wait_until(
        lambda: kubectl("__complete get configmap kube-root", namespace=api.namespace).out,
        lambda text: "kube-root-ca.crt" in text,
    )


def test_events_are_watched(client_cluster: ClientCluster, namespace: str) -> None:
    with running_kubectl(client_cluster.kubectl, "events --watch --for=pod/p", namespace) as said:
        client_cluster.run_kubectl(f"run p --image={_IMAGE}", namespace=namespace)
        assert said.readline().split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert said.readline().split()[1:4] == ["Normal", "Scheduled", "Pod/p"]
