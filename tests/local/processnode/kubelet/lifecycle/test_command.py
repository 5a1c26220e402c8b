"""The process node through the CLI: pods stop with the cluster, unless they are to keep running."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.processnode.cri.api import ContainerState
from kilonova.local.processnode.cri.client import ShimRuntime
from tests.cli.command import Kilonova
from tests.harness.access import ServerAccess

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    command = Kilonova(tmp_path)
    yield command
    command.stop_all()


def up(kilonova: Kilonova, *words: str) -> ServerAccess:
    """The cluster with nothing but the process node."""
    data = kilonova.home / "data"
    done = kilonova.detach(data, "--no-demo", "--process-node", *words)
    assert done.code == 0, done.err
    assert "nodes    1 (1 ready)" in done.out
    return ServerAccess.from_kubeconfig(data / "kubeconfig", kilonova.home / "admin")


def run_pod(access: ServerAccess, name: str, script: str, grace: int = 20) -> None:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    spec: Any = {"containers": [container], "terminationGracePeriodSeconds": grace}
    code, answer = access.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    assert code == 201, answer
    wait_until(lambda: phase(access, name) == "Running")


def phase(access: ServerAccess, name: str) -> str:
    found: Any = access.request("GET", f"{PODS}/{name}")[1]
    return found["status"]["phase"]


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(data: Path) -> list[ContainerState]:
    states = asyncio.run(ShimRuntime(data / "shim").list_containers())
    return [each for each in states if each.finished is None]


POLITE = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.05; done"


def test_down_stops_pods_and_reports_it(kilonova: Kilonova) -> None:
    data = kilonova.home / "data"
    access = up(kilonova)
    run_pod(access, "p", POLITE)
    (state,) = running(data)
    done = kilonova("down", "--data", data)
    assert done.out == f"Stopped. The data is kept in {data}.\n"
    assert done.err.startswith("Terminating 1 pod on this machine, at most ")
    assert not Path(f"/proc/{state.pid}").exists()
    assert running(data) == []
    wait_restarted(up(kilonova), "p")


def wait_restarted(access: ServerAccess, name: str) -> None:
    def restarted() -> bool:
        found: Any = access.request("GET", f"{PODS}/{name}")[1]
        status = found["status"]["containerStatuses"][0]
        return status["restartCount"] == 1 and status["ready"]

    wait_until(restarted)


@pytest.mark.parametrize("kill", [False, True])
def test_pods_outlive_kilonova_with_keep_pods(kilonova: Kilonova, kill: bool) -> None:
    data = kilonova.home / "data"
    run_pod(up(kilonova), "p", "exec sleep 1000")
    (before,) = running(data)
    if kill:
        os.kill(kilonova.status(data)["pid"], signal.SIGKILL)
    else:
        assert kilonova("down", "--keep-pods", "--data", data).code == 0
    access = up(kilonova)
    wait_until(lambda: phase(access, "p") == "Running")
    assert running(data) == [before]
    found: Any = access.request("GET", f"{PODS}/p")[1]
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


def test_down_ends_pods_that_a_killed_cluster_left(kilonova: Kilonova) -> None:
    data = kilonova.home / "data"
    run_pod(up(kilonova), "p", "exec sleep 1000")
    (left,) = running(data)
    pid = kilonova.status(data)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not kilonova.status(data)["running"])
    assert kilonova.status(data)["containers"] == 1
    reported = kilonova("status", "--data", data).out
    assert f"not running: process {pid} was killed or crashed" in reported
    assert "1 container still running here: `kilonova up` adopts them" in reported
    nothing = f"No cluster is running in {data}.\n"
    assert kilonova("down", "--keep-pods", "--data", data).out == nothing
    assert Path(f"/proc/{left.pid}").exists()
    done = kilonova("down", "--data", data)
    assert done.out.startswith(f"No cluster is running in {data}; stopped 1 container left")
    assert not Path(f"/proc/{left.pid}").exists()
    assert kilonova("down", "--data", data).out == nothing


def test_a_wipe_ends_pods_that_were_left(kilonova: Kilonova) -> None:
    data = kilonova.home / "data"
    run_pod(up(kilonova), "p", "exec sleep 1000")
    (left,) = running(data)
    assert kilonova("down", "--keep-pods", "--data", data).code == 0
    done = kilonova("down", "--wipe", "--yes", "--data", data)
    assert done.code == 0, done.err
    assert not data.exists()
    assert not Path(f"/proc/{left.pid}").exists()
