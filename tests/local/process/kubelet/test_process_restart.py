"""Kilonova goes and comes back: what ran goes on, and what ended meanwhile is known."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from tests.local.embedded_cluster import NODES, PODS
from tests.local.process.kubelet.process_cluster import (
    ProcessCluster,
    container_of,
    is_ready,
    process_cluster,
    state_of,
)


async def processes(data: Path) -> dict[str, int]:
    """Process numbers of what runs, by container."""
    states = await KeeperRuntime(data / "keeper").containers()
    return {each.name: each.pid for each in states if each.finished is None}


async def test_running_pods_are_adopted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    probe = {"exec": {"command": ["test", "-e", "ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    async with process_cluster(data, keeper_stays=True, gpus=(0, 1)) as first:
        await first.run(
            "p",
            "sh",
            "-c",
            "echo began; touch ok; exec sleep 1000",
            container={
                "readinessProbe": probe,
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            },
        )
        before = await first.until("p", is_ready)
        numbers = await processes(data)
    async with process_cluster(data, gpus=(0, 1)) as second:
        (data / "pods" / before["metadata"]["uid"] / "scratch" / "ok").unlink()
        pod = await second.until("p", lambda pod: not is_ready(pod))
        assert await processes(data) == numbers
        assert container_of(pod)["restartCount"] == 0
        assert pod["status"]["podIP"] == before["status"]["podIP"]
        assert await second.logs("p") == "began\n"
        command = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
        limits = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
        await second.run("q", *command, container=limits, restartPolicy="Never")
        await second.until_phase("q", "Succeeded")
        assert await second.logs("q") == "1\n"


async def test_what_ended_meanwhile_is_known_and_restarted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, keeper_stays=True) as first:
        await first.run("again", "sleep", "1000")
        await first.run("once", "sleep", "1000", restartPolicy="Never")
        for name in ("again", "once"):
            await first.until(name, is_ready)
        await first.create("left", {"name": "left", "command": ["sleep", "1000"]})
        await first.until("left", is_ready)
        numbers = await processes(data)
    await end_all(data)
    async with process_cluster(data) as second:
        once = await second.until_phase("once", "Failed")
        assert state_of(once)[1]["exitCode"] == 137
        again = await second.until("again", lambda pod: container_of(pod)["restartCount"] == 1)
        assert container_of(again)["lastState"]["terminated"]["exitCode"] == 137
        assert set((await processes(data)).values()).isdisjoint(numbers.values())


async def end_all(data: Path) -> None:
    runtime = KeeperRuntime(data / "keeper")
    for state in await runtime.containers():
        await runtime.kill(state.id)
        await runtime.wait(state.id)


async def test_a_pod_that_ended_stays_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, keeper_stays=True) as first:
        await first.run("p", "echo", "once", restartPolicy="Never")
        before = await first.until_phase("p", "Succeeded")
    async with process_cluster(data) as second:
        await second.run("q", "true", restartPolicy="Never")
        await second.until_phase("q", "Succeeded")
        after = await second.until_phase("p", "Succeeded")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert await second.logs("p") == "once\n"


async def test_what_was_deleted_meanwhile_is_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, keeper_stays=True) as first:
        for name in ("marked", "gone"):
            await first.create(name, {"name": name, "command": ["sleep", "1000"]})
            await first.until(name, is_ready)
    async with process_cluster(data, keeper_stays=True, process_node=False) as api:
        await api.client.delete(PODS, "marked", "default", grace=1)
        await api.client.delete(PODS, "gone", "default", grace=0)
        assert set(await processes(data)) == {"marked", "gone"}
    async with process_cluster(data) as second:
        await second.until_gone("marked")
        while await processes(data):
            await asyncio.sleep(0.02)
        while list((data / "pods").iterdir()):
            await asyncio.sleep(0.02)


async def test_a_lost_keeper_is_replaced_and_pods_start_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data) as cluster:
        await cluster.run("p", "sleep", "1000")
        await cluster.until("p", is_ready)
        os.kill(keeper_of(data), signal.SIGKILL)
        pod = await cluster.until("p", lambda pod: container_of(pod)["restartCount"] == 1)
        ended = container_of(pod)["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)


def keeper_of(data: Path) -> int:
    """The process number of the keeper on a folder."""
    wanted = str(data / "keeper").encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in words and b"-I" in words:
                return int(folder.name)
    raise AssertionError("no keeper runs")


async def test_stopping_ends_processes_and_keeps_pods(tmp_path: Path) -> None:
    data = tmp_path / "data"
    told: list[tuple[int, float]] = []
    async with process_cluster(data, keeper_stays=True) as first:
        script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"
        await first.run("p", "sh", "-c", script, terminationGracePeriodSeconds=20)
        await first.until_log("p", "up")
        await first.cluster.stop_pods(lambda count, seconds: told.append((count, seconds)))
        pod = await first.until("p", lambda pod: state_of(pod)[0] == "terminated")
        assert state_of(pod)[1]["exitCode"] == 7
        node = await first.client.get(NODES, first.node)
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
    assert [count for count, _ in told] == [1]
    assert 0 < told[0][1] <= 20
    async with process_cluster(data) as second:
        pod = await second.until("p", is_ready)
        assert container_of(pod)["restartCount"] == 1
        await _node_is_ready(second)


async def _node_is_ready(cluster: ProcessCluster) -> None:
    node: Any = await cluster.client.get(NODES, cluster.node)
    ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"


async def test_a_moved_folder_gives_its_pods_other_addresses(tmp_path: Path) -> None:
    data, moved = tmp_path / "data", tmp_path / "moved"
    async with process_cluster(data) as first:
        await first.run("p", "sleep", "1000")
        before = await first.until("p", is_ready)
    data.rename(moved)
    async with process_cluster(moved) as second:
        after = await second.until(
            "p", lambda pod: container_of(pod)["restartCount"] and is_ready(pod)
        )
        assert after["status"]["podIP"] != before["status"]["podIP"]
        assert after["status"]["podIPs"] == [{"ip": after["status"]["podIP"]}]


async def test_forty_pods_come_and_go(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as cluster:
        names = [f"p{number}" for number in range(40)]
        for name in names:
            await cluster.run(name, "sleep", "1000")
        pods = [await cluster.until(name, is_ready) for name in names]
        assert len({pod["status"]["podIP"] for pod in pods}) == 40
        for name in names:
            await cluster.client.delete(PODS, name, "default")
        for name in names:
            await cluster.until_gone(name)
        assert await processes(tmp_path / "data") == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
async def test_a_pod_may_run_as_another_user(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as cluster:
        context = {"runAsUser": 65534, "runAsGroup": 65533}
        script = "id -u; id -g; echo x > mine && cat mine"
        await cluster.run("p", "sh", "-c", script, securityContext=context, restartPolicy="Never")
        await cluster.until_phase("p", "Succeeded")
        assert await cluster.logs("p") == "65534\n65533\nx\n"
