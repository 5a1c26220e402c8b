"""Clients that reach into pods: this machine is the node, and pods are real processes."""

import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.stream import stream

from kubernetes import client, config
from tests.clients.background import local_port, running
from tests.clients.ground import Ground, until
from tests.clients.helm import CHART, Helm
from tests.harness.embedded import EmbeddedServer

_PROGRAM = "import time\nprint('ready', flush=True)\ntime.sleep(240)"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path) -> Iterator[Ground]:
    """A cluster whose only node is this machine, with one pod that waits."""
    folder = tmp_path_factory.mktemp("machine")
    with EmbeddedServer.start(
        folder / "data", "--port", "0", "--scheduler", "--process-node"
    ) as server:
        ground = Ground.on(server, folder)
        ground.run("wait --for=create serviceaccount/default --timeout=30s")
        command = ["--command", "--", "python3", "-c", _PROGRAM]
        ground.run(["run", "waiting", "--image=python", "--restart=Never", *command])
        try:
            ground.run("wait --for=condition=Ready pod/waiting --timeout=60s")
            yield ground
        finally:
            ground.kubectl("delete deployments,jobs,pods --all --now")


def test_kubectl_reads_writes_and_copies_in_a_pod(machine: Ground, tmp_path: Path) -> None:
    until(lambda: machine.run("logs waiting"), lambda text: text == "ready\n")
    assert machine.run("exec waiting -- python3 -c print(6*7)") == "42\n"
    echoed = machine.run("exec -i waiting -- cat", stdin="through the pod")
    assert echoed == "through the pod"
    outcome = machine.kubectl(["exec", "waiting", "--", "sh", "-c", "exit 3"])
    assert (outcome.code, outcome.err) == (3, "command terminated with exit code 3\n")
    (tmp_path / "there").write_text("and back")
    inside = tmp_path / "inside"
    machine.run(f"cp {tmp_path / 'there'} waiting:{inside}")
    machine.run(f"cp waiting:{inside} {tmp_path / 'back'}")
    assert (tmp_path / "back").read_text() == "and back"


def test_kubectl_runs_something_once_and_takes_it_away(machine: Ground) -> None:
    words = ["run", "once", "--image=none", "--restart=Never", "-i", "--rm", "--quiet"]
    said = machine.run([*words, "--command", "--", "cat"], stdin="said once")
    assert said.startswith("said once")
    assert "once" not in machine.names("pods")


def test_kubectl_looks_into_a_pod_with_another_container(machine: Ground) -> None:
    look = ["--", "python3", "-c", "print('looked')"]
    machine.run(["debug", "waiting", "--image=none", "-c", "look", *look])
    found = until(
        lambda: machine.read("pod waiting")["status"].get("ephemeralContainerStatuses") or [{}],
        lambda statuses: "terminated" in statuses[0].get("state", {}),
    )
    assert found[0]["state"]["terminated"]["exitCode"] == 0
    assert machine.run("logs waiting -c look") == "looked\n"


def test_kubectl_tells_what_is_used(machine: Ground) -> None:
    until(lambda: machine.kubectl("top pod waiting --no-headers").code, lambda code: code == 0)
    name, cpu, memory = machine.run("top pod waiting --no-headers").split()
    assert (name, cpu[-1], memory[-2:]) == ("waiting", "m", "Mi")
    (node,) = machine.names("nodes")
    assert machine.run("top node --no-headers").split()[0] == node


def test_the_chart_of_the_examples_is_served_and_tests_itself(
    machine: Ground, tmp_path: Path
) -> None:
    helm = Helm(machine, "default", tmp_path)
    helm("install", "board", str(CHART), "--wait", "--timeout=60s", "--set=message=Read me")
    assert "Read me" in machine.run("logs job/board-check")
    with running(machine.kubectl, "port-forward service/board :8080") as said:
        assert _page(f"http://127.0.0.1:{local_port(said)}/") == "Read me"
    with running(machine.kubectl, "proxy --port=0") as said:
        service = "api/v1/namespaces/default/services/board:http/proxy/"
        assert _page(f"http://127.0.0.1:{local_port(said)}/{service}") == "Read me"
    assert "Read me" in helm("test", "board", "--logs", "--timeout=60s")
    helm("uninstall", "board", "--wait")


def test_the_python_client_reads_logs_and_runs_commands(machine: Ground) -> None:
    with config.new_client_from_config(str(machine.access.kubeconfig)) as api:
        core: Any = client.CoreV1Api(api)
        log: Any = {"container": "waiting", "_preload_content": False}
        until(
            lambda: core.read_namespaced_pod_log("waiting", "default", **log).data,
            lambda text: text == b"ready\n",
        )
    # `stream` changes the client that it is given for good, so it gets one of its own.
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


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()
