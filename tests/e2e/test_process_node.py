"""The process node: a Deployment, a Service and an autoscaler, through kubectl and curl."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest

from kilonova.local.processnode.cri.client import ShimRuntime
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "web.yaml"
OPTIONS = (
    "--port",
    "0",
    "--scheduler",
    "--process-node",
    "--images",
    str(EXAMPLES / "images.yaml"),
)
LOAD_INTERVAL_SECONDS = 0.4
"""Between two requests of the load, which take 100 ms of CPU time: a quarter of a processor, more
than twice what a replica requests."""


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
    """The running example; yields the URL of its Service."""
    run(kubectl, f"apply -f {EXAMPLE}")
    run(kubectl, "rollout status deployment/web --timeout=60s")
    address = "get service web -o jsonpath={.status.loadBalancer.ingress[0].ip}"
    wait_until(lambda: run(kubectl, address) != "")
    yield f"http://{run(kubectl, address)}:8000"
    run(kubectl, f"delete -f {EXAMPLE}")


def run(kubectl: Kubectl, command: str, stdin: str = "", timeout: float = 60) -> str:
    done = kubectl(command, stdin=stdin, timeout=timeout)
    assert done.code == 0, done.err
    return done.out


def wait_until(check: Callable[[], bool], *, within: float = 90.0) -> None:
    deadline = time.monotonic() + within
    while not check():
        assert time.monotonic() < deadline, f"timed out after {within:g} s"
        time.sleep(0.2)


def get(url: str) -> str:
    with urlopen(url, timeout=20) as reply:
        return reply.read().decode()


def curl(url: str) -> str:
    """The output of curl."""
    command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "20", url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pods(kubectl: Kubectl) -> list[str]:
    query = "get pods -l app=web --field-selector=status.phase=Running -o jsonpath="
    return run(kubectl, query + "{.items[*].metadata.name}").split()


def test_an_image_of_the_table_runs_as_a_process(kubectl: Kubectl) -> None:
    run(kubectl, "run hello --image=ghcr.io/acme/hello:1.0 --port=8000")
    run(kubectl, "wait --for=condition=Ready pod/hello --timeout=60s")
    address = run(kubectl, "get pod hello -o jsonpath={.status.podIP}")
    wait_until(lambda: "Serving HTTP" in run(kubectl, "logs hello"))
    assert "Directory listing" in curl(f"http://{address}:8000/")
    # An entry that says nothing replaces that of the shipped table.
    warned = kubectl("run old --image=python:2.7")
    assert "the image table does not specify what image python:2.7 runs" in warned.err
    run(kubectl, "delete pod hello old --wait=false")


def test_service_answers_curl_and_scales_up_under_load(kubectl: Kubectl, web: str) -> None:
    (name,) = pods(kubectl)
    assert curl(web).startswith(f"{name} on ")
    stop = Event()

    def send_requests() -> None:
        while not stop.is_set():
            start = time.monotonic()
            get(f"{web}/work?ms=100")
            stop.wait(LOAD_INTERVAL_SECONDS - (time.monotonic() - start))

    with ThreadPoolExecutor(1) as worker:
        load = worker.submit(send_requests)
        try:
            scaled = "--for=jsonpath={.status.readyReplicas}=3"
            run(kubectl, f"wait {scaled} deployment/web --timeout=90s", timeout=120)
        finally:
            stop.set()
        load.result()
    run(kubectl, "rollout status deployment/web --timeout=60s")
    answers = {get(web).split()[0] for _ in range(30)}
    assert answers == set(pods(kubectl)), "every replica gets requests, all on port 8080"
    assert "SuccessfulRescale" in run(kubectl, "describe hpa web")


def test_exec_logs_port_forward_and_top_work(kubectl: Kubectl, web: str) -> None:
    (name,) = pods(kubectl)
    assert run(kubectl, f"exec -i {name} -- tr a-z A-Z", stdin="hello") == "HELLO"
    assert kubectl(f"exec {name} -- sh -c 'exit 3'").code == 3
    script = "import urllib.request as u; print(u.urlopen('http://web:8000/').read().decode())"
    assert name in run(kubectl, f'exec {name} -- python3 -c "{script}"'), "by its DNS name"
    assert "listening" in run(kubectl, f"logs {name}")
    forward = subprocess.Popen(
        [*kubectl.build_prefix(), "port-forward", "service/web", ":8000"],
        stdout=subprocess.PIPE,
        env=kubectl.build_environment(),
        text=True,
    )
    try:
        assert forward.stdout is not None
        port = forward.stdout.readline().split(" -> ")[0].rpartition(":")[2]
        assert get(f"http://127.0.0.1:{port}").startswith(name)
    finally:
        forward.terminate()
        forward.wait()
    wait_until(lambda: name in kubectl("top pods").out)
    assert run(kubectl, "top nodes --no-headers").split()[1].endswith("m")


def test_drained_node_is_empty_until_it_is_uncordoned(kubectl: Kubectl, web: str) -> None:
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
    """A data directory whose pods are stopped after the test."""
    directory = tmp_path / "data"
    yield directory
    asyncio.run(ShimRuntime(directory / "shim").shutdown())


def test_pods_outlive_a_crash_of_kilonova(data: Path, tmp_path: Path, kubectl_path: Path) -> None:
    first = EmbeddedServer.start(data, *OPTIONS)
    kubectl = Kubectl(kubectl_path, first.access.kubeconfig, tmp_path)
    run(kubectl, f"apply -f {EXAMPLE}")
    run(kubectl, "rollout status deployment/web --timeout=60s")
    (name,) = pods(kubectl)
    pod_ip = "get pod -l app=web -o jsonpath={.items[0].status.podIP}"
    direct = f"http://{run(kubectl, pod_ip)}:8080"
    pid = run(kubectl, f"exec {name} -- sh -c 'echo $PPID'")
    os.kill(first.process.pid, signal.SIGKILL)
    first.stop()
    assert get(direct).startswith(name), "the process keeps running without Kilonova"
    with EmbeddedServer.start(data, *OPTIONS) as second:
        kubectl = Kubectl(kubectl_path, second.access.kubeconfig, tmp_path)
        run(kubectl, "wait --for=condition=Ready pod -l app=web --timeout=60s")
        assert pods(kubectl) == [name]
        restarts = "get pods -o jsonpath={.items[*].status.containerStatuses[*].restartCount}"
        assert run(kubectl, restarts) == "0"
        assert run(kubectl, f"exec {name} -- sh -c 'echo $PPID'") == pid, "the same shim"
