"""The kubelet API of the process node: logs, exec, connections, usage."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.gpu.annotations import Gpu
from kilonova.kube import BadRequest
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.kubelet_api import ContainerUsage, Kubelet, OutputStream
from kilonova.local.processnode.cri.api import ContainerStats
from kilonova.local.processnode.kubelet.machine.info import normalize_node_name
from kilonova.local.processnode.kubelet.machine.usage import RunOwner, UsageSample, compute_usage
from tests.local.embedded_cluster import LEASES, NODES, PODS, START_TIME
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    is_ready,
    process_cluster,
    state_of,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    async with process_cluster(tmp_path / "data", gpus=(Gpu(), Gpu())) as running:
        yield running


def kubelet(cluster: ProcessCluster) -> Kubelet:
    return cluster.cluster.kubelets.get(cluster.node)


async def collect_output(process: Any) -> tuple[bytes, bytes, int]:
    """All output, and the exit code."""
    streams = {OutputStream.STDOUT: b"", OutputStream.STDERR: b""}
    async for stream, data in process.output():
        streams[stream] += data
    return streams[OutputStream.STDOUT], streams[OutputStream.STDERR], await process.wait()


async def test_node_describes_the_machine(cluster: ProcessCluster) -> None:
    node: Any = await cluster.client.get(NODES, cluster.node)
    status = node["status"]
    assert node["metadata"]["labels"]["kilonova.dev/node-kind"] == "process"
    assert node["spec"]["podCIDR"].startswith("127.")
    assert (status["capacity"]["nvidia.com/gpu"], status["capacity"]["pods"]) == ("2", "110")
    assert status["nodeInfo"]["kubeletVersion"].startswith("v1.36.")
    assert status["nodeInfo"]["containerRuntimeVersion"].startswith("kilonova-process://")
    assert {"type": "InternalIP", "address": "127.0.0.1"} in status["addresses"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions["Ready"] == "True"
    lease: Any = await cluster.client.get(LEASES, cluster.node, "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == cluster.node


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("Laptop.local", "laptop.local"),
        ("my_machine", "my-machine"),
        ("-x.-y-", "x.y"),
        ("", "this-machine"),
    ],
)
def test_host_names_are_normalized_to_node_names(hostname: str, name: str) -> None:
    assert normalize_node_name(hostname) == name


async def test_commands_run_in_containers(cluster: ProcessCluster) -> None:
    env = [{"name": "A", "value": "b"}]
    await cluster.run("p", "sleep", "1000", container={"env": env})
    pod = await cluster.wait_until("p", is_ready)
    script = "read line; echo $line $A; echo problem >&2; exit 3"
    process = await kubelet(cluster).execute(
        pod, "main", ["sh", "-c", script], stdin=True, tty=False
    )
    await process.send(b"hello\n")
    await process.close_input()
    assert await collect_output(process) == (b"hello b\n", b"problem\n", 3)
    with pytest.raises(ApiError, match="error executing command in container"):
        await kubelet(cluster).execute(pod, "main", ["/no/such"], stdin=False, tty=False)
    with pytest.raises(ApiError, match=r'container not found \("other"\)'):
        await kubelet(cluster).execute(pod, "other", ["true"], stdin=False, tty=False)


async def test_exec_in_an_ended_container_fails(cluster: ProcessCluster) -> None:
    await cluster.run("p", "true", restartPolicy="Never")
    pod = await cluster.wait_for_phase("p", "Succeeded")
    with pytest.raises(ApiError, match=r'container not found \("main"\)') as refused:
        await kubelet(cluster).execute(pod, "main", ["true"], stdin=False, tty=False)
    assert refused.value.code == 500
    with pytest.raises(ApiError, match="container main not found in pod p_default"):
        await kubelet(cluster).attach(pod, "main", stdin=False, tty=False)
    with pytest.raises(ApiError, match=r'pod not found \("p_default"\)'):
        await kubelet(cluster).dial(pod, 80)


async def test_attach_receives_container_output(cluster: ProcessCluster) -> None:
    script = "while read line; do echo got $line; done"
    await cluster.run("p", "sh", "-c", script, container={"stdin": True})
    pod = await cluster.wait_until("p", is_ready)
    process = await kubelet(cluster).attach(pod, "main", stdin=True, tty=False)
    await process.send(b"this\n")
    async for stream, data in process.output():
        assert (stream, data) == (OutputStream.STDOUT, b"got this\n")
        break
    await process.detach()
    assert state_of(await cluster.wait_until("p", is_ready))[0] == "running"


async def test_connections_reach_a_pod(cluster: ProcessCluster) -> None:
    (script := cluster.data.parent / "index.html").write_text("served\n")
    server = ("python3", "-m", "http.server", "8080", "--bind", "127.0.0.1")
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    await cluster.run(
        "p", *server, "--directory", str(script.parent), container={"readinessProbe": probe}
    )
    pod = await cluster.wait_until("p", is_ready)
    reader, writer = await kubelet(cluster).dial(pod, 8080)
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"served\n")
    writer.close()
    with pytest.raises(ApiError, match="failed to connect to localhost:81 inside pod"):
        await kubelet(cluster).dial(pod, 81)


async def test_following_a_log_ends_with_the_container(cluster: ProcessCluster) -> None:
    script = "echo one; sleep 0.3; echo two >&2; exit 0"
    await cluster.run("p", "sh", "-c", script, restartPolicy="Never")
    await cluster.wait_for_log("p", "one")
    assert await cluster.logs("p", follow=True) == "one\ntwo\n"
    stamped = await cluster.logs("p", timestamps=True, tail=1)
    assert stamped.split()[1] == "two"


async def test_there_is_no_previous_log_before_a_restart(cluster: ProcessCluster) -> None:
    await cluster.run("p", "sleep", "1000")
    await cluster.wait_until("p", is_ready)
    expected = 'previous terminated container "main" in pod "p" not found'
    with pytest.raises(BadRequest, match=expected):
        await cluster.logs("p", previous=True)


async def test_logs_are_deleted_with_their_pod(cluster: ProcessCluster) -> None:
    await cluster.run("p", "echo", "x", restartPolicy="Never")
    pod = await cluster.wait_for_phase("p", "Succeeded")
    folder = cluster.data / "pods" / pod["metadata"]["uid"]
    assert (folder / "logs" / "main" / "0.log").exists()
    await cluster.client.delete(PODS, "p", "default")
    await cluster.wait_for_deletion("p")
    async with asyncio.timeout(10):
        while folder.exists():
            await asyncio.sleep(0.02)


def test_usage_is_computed_between_two_samples() -> None:
    before = UsageSample(
        START_TIME, ContainerStats(10, 7), {"r": ContainerStats(0, 5), "old": ContainerStats(1, 1)}
    )
    later = START_TIME + timedelta(seconds=2)
    after = UsageSample(
        later,
        ContainerStats(4_000_000_010, 8),
        {
            "r": ContainerStats(1_000_000_000, 6),
            "new": ContainerStats(9, 9),
            "whose": ContainerStats(1, 1),
        },
    )
    owners = {
        "r": RunOwner("default", "p", "main", 0.0),
        "new": RunOwner("default", "q", "main", later.timestamp() - 1),
    }
    found = compute_usage(before, after, owners)
    assert found is not None
    assert (found.cpu_nanocores, found.memory_bytes, found.window) == (2_000_000_000, 8, 2)
    shown = [(pod.name, *pod.containers) for pod in found.pods]
    assert shown == [
        ("p", ContainerUsage("main", 500_000_000, 6)),
        ("q", ContainerUsage("main", 9, 9)),
    ]
    assert compute_usage(after, after, owners) is None
