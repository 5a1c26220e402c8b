"""`kilonova up --clusters N`, as a user runs it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from kilonova.cli.up.clusters.directory import ClustersDirectory
from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.cli.up.test_cluster_lifecycle import is_alive, read_until
from tests.local.embedded_cluster import SERVICES

FEW_PARTS = ("--only", "nodes", "--port", "0")


def status(kilonova: Kilonova, data: Path) -> dict[str, Any]:
    return json.loads(kilonova("status", "-o", "json", "--data", data).out)


def states(kilonova: Kilonova, data: Path) -> dict[str, tuple[bool, str | None]]:
    """Whether each cluster runs, and how it stopped."""
    return {
        each["name"]: (
            each["status"]["running"],
            each["status"]["stopped"] and each["status"]["stopped"]["reason"],
        )
        for each in status(kilonova, data)["clusters"]
    }


def pid_of(kilonova: Kilonova, data: Path, name: str) -> int:
    found = status(kilonova, data)["clusters"]
    return next(each["status"]["pid"] for each in found if each["name"] == name)


def stop_all_after_test(kilonova: Kilonova, data: Path, count: int) -> None:
    directory = ClustersDirectory.create(data, count, 0)
    for each in directory.clusters:
        kilonova.stop_after_test(directory.data_of(each))


async def read_api_address(kubeconfig: Path, context: str) -> str:
    async with connect(kubeconfig, context) as client:
        service = await client.get(SERVICES, "kubernetes", "default")
        return service["spec"]["clusterIP"]


def test_clusters_live_and_end_by_themselves_and_together(
    kilonova: Kilonova, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    stop_all_after_test(kilonova, data, 2)
    started = kilonova("up", "--clusters", "2", "--detach", "--wait", "--data", data, *FEW_PARTS)
    assert started.code == 0, started.err
    assert "2 clusters are ready" in started.out
    addresses = [
        asyncio.run(read_api_address(data / "kubeconfig", name)) for name in ("dal1", "msp2")
    ]
    assert addresses == ["10.96.0.1", "10.97.0.1"]

    first, second = (pid_of(kilonova, data, name) for name in ("dal1", "msp2"))
    os.kill(second, signal.SIGKILL)
    lost = states(kilonova, data)
    assert lost == {"dal1": (True, None), "msp2": (False, "killed")}

    again = kilonova("up", "--detach", "--wait", "--data", data, *FEW_PARTS)
    assert again.code == 0, again.err
    assert "Running already: dal1." in again.out
    assert pid_of(kilonova, data, "dal1") == first

    variables = {"KUBECONFIG": str(data / "kubeconfig")}
    stopped = kilonova("down", variables=variables)
    assert stopped.code == 0, stopped.err
    assert states(kilonova, data) == {"dal1": (False, "requested"), "msp2": (False, "requested")}
    (data / "notes.txt").write_text("mine")
    wiped = kilonova("down", "--wipe", "--yes", "--data", data)
    assert "Not removed, since not Kilonova's: notes.txt." in wiped.out
    assert [each.name for each in data.iterdir()] == ["notes.txt"]


def test_clusters_end_with_the_process_that_runs_them(kilonova: Kilonova, tmp_path: Path) -> None:
    data = tmp_path / "data"
    stop_all_after_test(kilonova, data, 2)
    command = kilonova.command("up", "--clusters", "2", "--data", data, *FEW_PARTS)
    with subprocess.Popen(
        command, env=kilonova.environment(), stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"2 clusters are ready")
        running = [pid_of(kilonova, data, name) for name in ("dal1", "msp2")]
        process.kill()
        for pid in running:
            wait_for_end(pid)
    assert states(kilonova, data) == {"dal1": (False, "requested"), "msp2": (False, "requested")}


def wait_for_end(pid: int) -> None:
    """Wait until a process that is no child of ours has ended; the test's limit bounds it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        asyncio.run(_readable(descriptor))
    finally:
        os.close(descriptor)
    assert not is_alive(pid)


async def _readable(descriptor: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    await ended.wait()
    loop.remove_reader(descriptor)


def test_start_that_fails_leaves_nothing_behind(kilonova: Kilonova, tmp_path: Path) -> None:
    data = tmp_path / "data"
    stop_all_after_test(kilonova, data, 2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failed = kilonova(
            "up",
            "--clusters",
            "2",
            "--detach",
            "--data",
            data,
            "--only",
            "nodes",
            "--port",
            str(port),
        )
    assert failed.code == 1
    assert f"dal1: port {port} of 127.0.0.1 cannot be used" in failed.err
    assert not data.exists()
