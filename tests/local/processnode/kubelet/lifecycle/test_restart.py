"""Kilonova restarts: running pods go on, and those that ended meanwhile are reported."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.gpu.annotations import Gpu
from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.local.cluster import ClusterSettings
from kilonova.local.processnode.cri.client import ShimRuntime
from tests.local.embedded_cluster import NODES, PODS
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    container_of,
    is_ready,
    process_cluster,
    state_of,
)


async def processes(data: Path) -> dict[str, int]:
    """Process numbers of what runs, by container."""
    states = await ShimRuntime(data / "shim").list_containers()
    return {each.name: each.pid for each in states if each.finished is None}


async def test_running_pods_are_adopted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    probe = {"exec": {"command": ["test", "-e", "ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    async with process_cluster(data, shim_stays=True, gpus=(Gpu(), Gpu())) as first:
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
        before = await first.wait_until("p", is_ready)
        numbers = await processes(data)
    async with process_cluster(data, gpus=(Gpu(), Gpu())) as second:
        (data / "pods" / before["metadata"]["uid"] / "scratch" / "ok").unlink()
        pod = await second.wait_until("p", lambda pod: not is_ready(pod))
        assert await processes(data) == numbers
        assert container_of(pod)["restartCount"] == 0
        assert pod["status"]["podIP"] == before["status"]["podIP"]
        assert await second.logs("p") == "began\n"
        command = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
        limits = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
        await second.run("q", *command, container=limits, restartPolicy="Never")
        await second.wait_for_phase("q", "Succeeded")
        assert await second.logs("q") == "1\n"


async def test_pod_whose_address_was_not_reported_yet_keeps_it(tmp_path: Path) -> None:
    """Killed between the start of a container and the status that reports it."""
    data = tmp_path / "data"
    probe = {"httpGet": {"port": 8000}, "periodSeconds": 1, "timeoutSeconds": 10}
    server = ["sh", "-c", "exec python3 -m http.server 8000 --bind $POD_IP"]
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    async with process_cluster(data, shim_stays=True) as first:
        # Another pod's address is the first one that a new kubelet would take.
        await first.run("o", "sleep", "1000")
        await first.wait_until("o", is_ready)
        container = {"readinessProbe": probe, "env": [address]}
        await first.run("p", *server, container=container)
        before = await first.wait_until("p", is_ready)
        await first.client.delete(PODS, "o", "default", grace_period_seconds=0)
        await first.wait_for_deletion("o")
    await forget_status(data, "p")
    async with process_cluster(data) as second:
        after = await second.wait_until("p", is_ready)
        assert after["status"]["podIP"] == before["status"]["podIP"]
        assert container_of(after)["restartCount"] == 0


async def forget_status(data: Path, pod: str) -> None:
    """The status of a pod is as before its containers were started."""
    settings = ClusterSettings(data=data, port=0)
    cluster = assemble_cluster((), settings).cluster
    await cluster.start()
    try:
        status = {"podIP": None, "podIPs": None, "conditions": None, "containerStatuses": None}
        body = {"status": {**status, "phase": "Pending"}}
        client = cluster.client("test")
        written = await client.patch(PODS, pod, body, "default", subresource="status")
        assert "podIP" not in written["status"]
    finally:
        await cluster.stop()


async def test_container_that_ended_meanwhile_is_restarted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, shim_stays=True) as first:
        await first.run("again", "sleep", "1000")
        await first.run("once", "sleep", "1000", restartPolicy="Never")
        for name in ("again", "once"):
            await first.wait_until(name, is_ready)
        await first.create("left", {"name": "left", "command": ["sleep", "1000"]})
        await first.wait_until("left", is_ready)
        numbers = await processes(data)
    await end_all(data)
    async with process_cluster(data) as second:
        once = await second.wait_for_phase("once", "Failed")
        assert state_of(once)[1]["exitCode"] == 137
        again = await second.wait_until("again", lambda pod: container_of(pod)["restartCount"] == 1)
        assert container_of(again)["lastState"]["terminated"]["exitCode"] == 137
        assert set((await processes(data)).values()).isdisjoint(numbers.values())


async def end_all(data: Path) -> None:
    runtime = ShimRuntime(data / "shim")
    for state in await runtime.list_containers():
        await runtime.kill(state.id)
        await runtime.wait(state.id)


async def test_ended_pod_stays_ended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, shim_stays=True) as first:
        await first.run("p", "echo", "once", restartPolicy="Never")
        before = await first.wait_for_phase("p", "Succeeded")
    async with process_cluster(data) as second:
        await second.run("q", "true", restartPolicy="Never")
        await second.wait_for_phase("q", "Succeeded")
        after = await second.wait_for_phase("p", "Succeeded")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert await second.logs("p") == "once\n"


async def test_pod_deleted_meanwhile_is_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data, shim_stays=True) as first:
        for name in ("marked", "gone"):
            await first.create(name, {"name": name, "command": ["sleep", "1000"]})
            await first.wait_until(name, is_ready)
    async with process_cluster(data, shim_stays=True, process_node=False) as api:
        await api.client.delete(PODS, "marked", "default", grace_period_seconds=1)
        await api.client.delete(PODS, "gone", "default", grace_period_seconds=0)
        assert set(await processes(data)) == {"marked", "gone"}
    async with process_cluster(data) as second:
        await second.wait_for_deletion("marked")
        while await processes(data):
            await asyncio.sleep(0.02)
        while list((data / "pods").iterdir()):
            await asyncio.sleep(0.02)


async def test_a_killed_shim_is_replaced_and_pods_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with process_cluster(data) as cluster:
        await cluster.run("p", "sleep", "1000")
        await cluster.wait_until("p", is_ready)
        os.kill(shim_pid_of(data), signal.SIGKILL)
        pod = await cluster.wait_until("p", lambda pod: container_of(pod)["restartCount"] == 1)
        ended = container_of(pod)["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)


def shim_pid_of(data: Path) -> int:
    """The pid of the shim of a directory."""
    expected = str(data / "shim").encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if expected in words and b"-I" in words:
                return int(folder.name)
    raise AssertionError("no shim runs")


async def test_stopping_ends_processes_and_keeps_pods(tmp_path: Path) -> None:
    data = tmp_path / "data"
    recorded: list[tuple[int, float]] = []
    async with process_cluster(data, shim_stays=True) as first:
        script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"
        await first.run("p", "sh", "-c", script, terminationGracePeriodSeconds=20)
        await first.wait_for_log("p", "up")
        await first.cluster.stop_pods(lambda count, seconds: recorded.append((count, seconds)))
        pod = await first.wait_until("p", lambda pod: state_of(pod)[0] == "terminated")
        assert state_of(pod)[1]["exitCode"] == 7
        node = await first.client.get(NODES, first.node)
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
    assert [count for count, _ in recorded] == [1]
    assert 0 < recorded[0][1] <= 20
    async with process_cluster(data) as second:
        pod = await second.wait_until("p", is_ready)
        assert container_of(pod)["restartCount"] == 1
        await _node_is_ready(second)


async def _node_is_ready(cluster: ProcessCluster) -> None:
    node: Any = await cluster.client.get(NODES, cluster.node)
    ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"


async def test_moved_data_directory_changes_pod_addresses(tmp_path: Path) -> None:
    data, moved = tmp_path / "data", tmp_path / "moved"
    async with process_cluster(data) as first:
        await first.run("p", "sleep", "1000")
        before = await first.wait_until("p", is_ready)
    data.rename(moved)
    async with process_cluster(moved) as second:
        after = await second.wait_until(
            "p", lambda pod: container_of(pod)["restartCount"] and is_ready(pod)
        )
        assert after["status"]["podIP"] != before["status"]["podIP"]
        assert after["status"]["podIPs"] == [{"ip": after["status"]["podIP"]}]


async def test_forty_pods_start_and_stop(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as cluster:
        names = [f"p{number}" for number in range(40)]
        for name in names:
            await cluster.run(name, "sleep", "1000")
        pods = [await cluster.wait_until(name, is_ready) for name in names]
        assert len({pod["status"]["podIP"] for pod in pods}) == 40
        for name in names:
            await cluster.client.delete(PODS, name, "default")
        for name in names:
            await cluster.wait_for_deletion(name)
        assert await processes(tmp_path / "data") == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as others")
async def test_a_pod_may_run_as_another_user(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data") as cluster:
        context = {"runAsUser": 65534, "runAsGroup": 65533}
        script = "id -u; id -g; echo x > mine && cat mine"
        await cluster.run("p", "sh", "-c", script, securityContext=context, restartPolicy="Never")
        await cluster.wait_for_phase("p", "Succeeded")
        assert await cluster.logs("p") == "65534\n65533\nx\n"
