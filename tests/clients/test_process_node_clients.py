"""Clients that access pods: this machine is the node, and pods are real processes."""

import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.stream import stream

from kubernetes import client, config
from tests.clients.background_kubectl import read_local_port, running_kubectl
from tests.clients.client_cluster import ClientCluster, wait_until
from tests.clients.helm import CHART, Helm
from tests.harness.embedded_server import EmbeddedServer

_PROGRAM = "import time\nprint('ready', flush=True)\ntime.sleep(240)"


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path
) -> Iterator[ClientCluster]:
    """A cluster whose only node is this machine, with one sleeping pod."""
    folder = tmp_path_factory.mktemp("machine")
    with EmbeddedServer.start(
        folder / "data", "--port", "0", "--scheduler", "--process-node"
    ) as server:
        client_cluster = ClientCluster.from_server(server, folder)
        client_cluster.run_kubectl("wait --for=create serviceaccount/default --timeout=30s")
        command = ["--command", "--", "python3", "-c", _PROGRAM]
        client_cluster.run_kubectl(
            ["run", "waiting", "--image=python", "--restart=Never", *command]
        )
        try:
            client_cluster.run_kubectl("wait --for=condition=Ready pod/waiting --timeout=60s")
            yield client_cluster
        finally:
            client_cluster.kubectl("delete deployments,jobs,pods --all --now")


def test_kubectl_reads_writes_and_copies_in_a_pod(machine: ClientCluster, tmp_path: Path) -> None:
    wait_until(lambda: machine.run_kubectl("logs waiting"), lambda text: text == "ready\n")
    assert machine.run_kubectl("exec waiting -- python3 -c print(6*7)") == "42\n"
    echoed = machine.run_kubectl("exec -i waiting -- cat", stdin="through the pod")
    assert echoed == "through the pod"
    outcome = machine.kubectl(["exec", "waiting", "--", "sh", "-c", "exit 3"])
    assert (outcome.code, outcome.err) == (3, "command terminated with exit code 3\n")
    (tmp_path / "there").write_text("and back")
    inside = tmp_path / "inside"
    machine.run_kubectl(f"cp {tmp_path / 'there'} waiting:{inside}")
    machine.run_kubectl(f"cp waiting:{inside} {tmp_path / 'back'}")
    assert (tmp_path / "back").read_text() == "and back"


def test_kubectl_run_rm_deletes_its_pod(machine: ClientCluster) -> None:
    words = ["run", "once", "--image=none", "--restart=Never", "-i", "--rm", "--quiet"]
    said = machine.run_kubectl([*words, "--command", "--", "cat"], stdin="said once")
    assert said.startswith("said once")
    assert "once" not in machine.list_names("pods")


def test_kubectl_debug_adds_a_container(machine: ClientCluster) -> None:
    look = ["--", "python3", "-c", "print('looked')"]
    machine.run_kubectl(["debug", "waiting", "--image=none", "-c", "look", *look])
    found = wait_until(
        lambda: machine.get_json("pod waiting")["status"].get("ephemeralContainerStatuses") or [{}],
        lambda statuses: "terminated" in statuses[0].get("state", {}),
    )
    assert found[0]["state"]["terminated"]["exitCode"] == 0
    assert machine.run_kubectl("logs waiting -c look") == "looked\n"


def test_kubectl_shows_usage(machine: ClientCluster) -> None:
    wait_until(lambda: machine.kubectl("top pod waiting --no-headers").code, lambda code: code == 0)
    name, cpu, memory = machine.run_kubectl("top pod waiting --no-headers").split()
    assert (name, cpu[-1], memory[-2:]) == ("waiting", "m", "Mi")
    (node,) = machine.list_names("nodes")
    assert machine.run_kubectl("top node --no-headers").split()[0] == node


def test_the_chart_of_the_examples_is_served_and_tests_itself(
    machine: ClientCluster, tmp_path: Path
) -> None:
    helm = Helm(machine, "default", tmp_path)
    helm("install", "board", str(CHART), "--wait", "--timeout=60s", "--set=message=Read me")
    assert "Read me" in machine.run_kubectl("logs job/board-check")
    with running_kubectl(machine.kubectl, "port-forward service/board :8080") as said:
        assert _fetch_page(f"http://127.0.0.1:{read_local_port(said)}/") == "Read me"
    with running_kubectl(machine.kubectl, "proxy --port=0") as said:
        service = "api/v1/namespaces/default/services/board:http/proxy/"
        assert _fetch_page(f"http://127.0.0.1:{read_local_port(said)}/{service}") == "Read me"
    assert "Read me" in helm("test", "board", "--logs", "--timeout=60s")
    helm("uninstall", "board", "--wait")


def test_the_python_client_reads_logs_and_runs_commands(machine: ClientCluster) -> None:
    with config.new_client_from_config(str(machine.access.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)
        log: Any = {"container": "waiting", "_preload_content": False}
        wait_until(
            lambda: core.read_namespaced_pod_log("waiting", "default", **log).data,
            lambda text: text == b"ready\n",
        )
    # `stream` modifies its client permanently, so it gets its own.
    with config.new_client_from_config(str(machine.access.kubeconfig)) as api:
        connect: Any = client.CoreV1Api(api).connect_get_namespaced_pod_exec
        options: Any = {"container": "waiting", "stdout": True, "stderr": True, "tty": False}
        command = ["python3", "-c", "print('from Python')"]
        said = stream(connect, "waiting", "default", command=command, stdin=False, **options)
        assert said == "from Python\n"
        talk: Any = stream(
            connect,
            "waiting",
            "default",
            command=["cat"],
            stdin=True,
            _preload_content=False,
            **options,
        )
        with contextlib.closing(talk):
            talk.write_stdin("a line\n")
            assert talk.readline_stdout(timeout=10) == "a line"


def _fetch_page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()
