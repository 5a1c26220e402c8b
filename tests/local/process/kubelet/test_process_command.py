"""The process node through the command: pods end with the cluster, unless they are to stay."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from kilonova.local.nodes.process.runtime import ContainerState
from tests.cli.command import Kilonova
from tests.harness.access import Access

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def kilonova(tmp_path: Path) -> Iterator[Kilonova]:
    command = Kilonova(tmp_path)
    yield command
    command.end()


def up(kilonova: Kilonova, *words: str) -> Access:
    """The cluster with nothing but the process node."""
    data = kilonova.home / "data"
    done = kilonova.detach(data, "--no-demo", "--process-node", *words)
    assert done.code == 0, done.err
    assert "nodes    1 (1 ready)" in done.out
    return Access.from_kubeconfig(data / "kubeconfig", kilonova.home / "admin")


def run_pod(access: Access, name: str, script: str, grace: int = 20) -> None:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
    spec: Any = {"containers": [container], "terminationGracePeriodSeconds": grace}
    code, answer = access.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    assert code == 201, answer
    until(lambda: phase(access, name) == "Running")


def phase(access: Access, name: str) -> str:
    found: Any = access.ask("GET", f"{PODS}/{name}")[1]
    return found["status"]["phase"]


def until(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(data: Path) -> list[ContainerState]:
    states = asyncio.run(KeeperRuntime(data / "keeper").containers())
    return [each for each in states if each.finished is None]


POLITE = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.05; done"


def test_down_ends_pods_and_says_so(kilonova: Kilonova) -> None:
    data = kilonova.home / "data"
    access = up(kilonova)
    run_pod(access, "p", POLITE)
    (state,) = running(data)
    done = kilonova("down", "--data", data)
    assert done.out == f"Stopped. The data stays in {data}.\n"
    assert done.err.startswith("Ending 1 pod on this machine, at most ")
    assert not Path(f"/proc/{state.pid}").exists()
    assert running(data) == []
    until_restarted(up(kilonova), "p")


def until_restarted(access: Access, name: str) -> None:
    def restarted() -> bool:
        found: Any = access.ask("GET", f"{PODS}/{name}")[1]
        status = found["status"]["containerStatuses"][0]
        return status["restartCount"] == 1 and status["ready"]

    until(restarted)


@pytest.mark.parametrize("kill", [False, True])
def test_pods_outlive_kilonova_where_they_are_to(kilonova: Kilonova, kill: bool) -> None:
    data = kilonova.home / "data"
    run_pod(up(kilonova), "p", "exec sleep 1000")
    (before,) = running(data)
    if kill:
        os.kill(kilonova.status(data)["pid"], signal.SIGKILL)
    else:
        assert kilonova("down", "--keep-pods", "--data", data).code == 0
    access = up(kilonova)
    until(lambda: phase(access, "p") == "Running")
    assert running(data) == [before]
    found: Any = access.ask("GET", f"{PODS}/p")[1]
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


def test_down_ends_pods_that_a_killed_cluster_left(kilonova: Kilonova) -> None:
    data = kilonova.home / "data"
    run_pod(up(kilonova), "p", "exec sleep 1000")
    (left,) = running(data)
    pid = kilonova.status(data)["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not kilonova.status(data)["running"])
    assert kilonova.status(data)["containers"] == 1
    told = kilonova("status", "--data", data).out
    assert f"not running: process {pid} was killed or crashed" in told
    assert "1 container still running here: `kilonova up` adopts them" in told
    nothing = f"Nothing runs on {data}.\n"
    assert kilonova("down", "--keep-pods", "--data", data).out == nothing
    assert Path(f"/proc/{left.pid}").exists()
    done = kilonova("down", "--data", data)
    assert done.out.startswith(f"No cluster runs on {data}; ended 1 container that")
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
