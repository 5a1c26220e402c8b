"""This machine as a node: a Deployment, a Service and an autoscaler, through kubectl and curl."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest

from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl

EXAMPLE = Path(__file__).parents[2] / "examples" / "web.yaml"
OPTIONS = ("--port", "0", "--scheduler", "--process-node")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    data = tmp_path_factory.mktemp("process-node") / "data"
    with EmbeddedServer.start(data, *OPTIONS) as server:
        yield server


@pytest.fixture
def kubectl(kubectl_path: Path, server: EmbeddedServer, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl_path, server.access.kubeconfig, tmp_path)


@pytest.fixture
def web(kubectl: Kubectl) -> Iterator[str]:
    """The example, running; the address at which it answers."""
    run(kubectl, f"apply -f {EXAMPLE}")
    run(kubectl, "rollout status deployment/web --timeout=60s")
    address = "get service web -o jsonpath={.status.loadBalancer.ingress[0].ip}"
    eventually(lambda: run(kubectl, address) != "")
    yield f"http://{run(kubectl, address)}:8000"
    run(kubectl, f"delete -f {EXAMPLE}")


def run(kubectl: Kubectl, command: str, stdin: str = "") -> str:
    done = kubectl(command, stdin=stdin)
    assert done.code == 0, done.err
    return done.out


def eventually(check: Callable[[], bool], *, within: float = 90.0) -> None:
    deadline = time.monotonic() + within
    while not check():
        assert time.monotonic() < deadline, f"not so after {within:g} s"
        time.sleep(0.2)


def get(url: str) -> str:
    with urlopen(url, timeout=20) as reply:
        return reply.read().decode()


def curl(url: str) -> str:
    """What a person would type."""
    command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "20", url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pods(kubectl: Kubectl) -> list[str]:
    wanted = "get pods -l app=web --field-selector=status.phase=Running -o jsonpath="
    return run(kubectl, wanted + "{.items[*].metadata.name}").split()


def test_a_service_answers_curl_and_grows_under_load(kubectl: Kubectl, web: str) -> None:
    (name,) = pods(kubectl)
    assert curl(web).startswith(f"{name} on ")
    stop = False

    def work() -> None:
        while not stop:
            get(f"{web}/work?ms=100")

    with ThreadPoolExecutor(2) as workers:
        loads = [workers.submit(work) for _ in range(2)]
        try:
            eventually(lambda: len(pods(kubectl)) == 3)
        finally:
            stop = True
        for load in loads:
            load.result()
    run(kubectl, "rollout status deployment/web --timeout=60s")
    answers = {get(web).split()[0] for _ in range(30)}
    assert answers == set(pods(kubectl)), "every replica takes its share, all on port 8080"
    assert "SuccessfulRescale" in run(kubectl, "describe hpa web")


def test_exec_logs_forward_and_top_as_people_know_them(kubectl: Kubectl, web: str) -> None:
    (name,) = pods(kubectl)
    assert run(kubectl, f"exec -i {name} -- tr a-z A-Z", stdin="hello") == "HELLO"
    assert kubectl(f"exec {name} -- sh -c 'exit 3'").code == 3
    inside = "import urllib.request as u; print(u.urlopen('http://web:8000/').read().decode())"
    assert name in run(kubectl, f'exec {name} -- python3 -c "{inside}"'), "by its name in DNS"
    assert "listening" in run(kubectl, f"logs {name}")
    forward = subprocess.Popen(
        [*kubectl.prefix(), "port-forward", "service/web", ":8000"],
        stdout=subprocess.PIPE,
        env=kubectl.environment(),
        text=True,
    )
    try:
        assert forward.stdout is not None
        port = forward.stdout.readline().split(" -> ")[0].rpartition(":")[2]
        assert get(f"http://127.0.0.1:{port}").startswith(name)
    finally:
        forward.terminate()
        forward.wait()
    eventually(lambda: name in kubectl("top pods").out)
    assert run(kubectl, "top nodes --no-headers").split()[1].endswith("m")


def test_a_drained_node_is_empty_until_it_is_uncordoned(kubectl: Kubectl, web: str) -> None:
    node = run(kubectl, "get nodes -l kilonova.dev/node-kind=process -o name").strip()
    (before,) = pods(kubectl)
    run(kubectl, f"drain {node} --timeout=60s")
    assert pods(kubectl) == []
    run(kubectl, f"uncordon {node}")
    run(kubectl, "rollout status deployment/web --timeout=60s")
    (after,) = pods(kubectl)
    assert after != before
    assert get(web).startswith(after)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose pods end with the test, whoever was killed meanwhile."""
    folder = tmp_path / "data"
    yield folder
    asyncio.run(KeeperRuntime(folder / "keeper").shutdown())


def test_pods_outlive_a_crash_of_kilonova(data: Path, tmp_path: Path, kubectl_path: Path) -> None:
    first = EmbeddedServer.start(data, *OPTIONS)
    kubectl = Kubectl(kubectl_path, first.access.kubeconfig, tmp_path)
    run(kubectl, f"apply -f {EXAMPLE}")
    run(kubectl, "rollout status deployment/web --timeout=60s")
    (name,) = pods(kubectl)
    where = "get pod -l app=web -o jsonpath={.items[0].status.podIP}"
    direct = f"http://{run(kubectl, where)}:8080"
    pid = run(kubectl, f"exec {name} -- sh -c 'echo $PPID'")
    os.kill(first.process.pid, signal.SIGKILL)
    first.stop()
    assert get(direct).startswith(name), "the process goes on without Kilonova"
    with EmbeddedServer.start(data, *OPTIONS) as second:
        kubectl = Kubectl(kubectl_path, second.access.kubeconfig, tmp_path)
        run(kubectl, "wait --for=condition=Ready pod -l app=web --timeout=60s")
        assert pods(kubectl) == [name]
        restarts = "get pods -o jsonpath={.items[*].status.containerStatuses[*].restartCount}"
        assert run(kubectl, restarts) == "0"
        assert run(kubectl, f"exec {name} -- sh -c 'echo $PPID'") == pid, "the same keeper"
