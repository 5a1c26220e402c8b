"""Pods that try to escape their resources, or to break this node."""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube.client.client import PatchType
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.processnode.kubelet.objects import (
    Container,
    GrpcAction,
    HttpGetAction,
    HttpHeader,
    Probe,
    TcpSocketAction,
)
from kilonova.local.processnode.kubelet.probes.prober import (
    ProbeError,
    Prober,
    ProbeResult,
    ProbeTarget,
)
from kilonova.local.processnode.kubelet.volumes.atomic_writer import write_directory
from kilonova.local.processnode.kubelet.volumes.manager import create_memory_directory
from kilonova.local.processnode.kubelet.volumes.projection import VolumeFile
from tests.local.embedded_cluster import CONFIG_MAPS, PODS, SECRETS
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    container_of,
    process_cluster,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    async with process_cluster(data) as running:
        yield running


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "..", "a\0b", "x" * 300, "."])
def test_no_file_of_a_volume_is_written_outside_of_it(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "volume"
    with pytest.raises((OSError, ValueError)):
        write_directory(folder, {name: VolumeFile(b"x", 0o644)})
    assert not (tmp_path / "deep" / "out").exists()
    assert not list(folder.iterdir()), "nothing is left of the attempt"


def test_memory_volumes_are_private_to_their_owner(tmp_path: Path) -> None:
    made = create_memory_directory("uid", tmp_path)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert create_memory_directory("uid", tmp_path) == made


def test_directory_of_another_user_is_not_used_for_memory_volumes(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (tmp_path / f"kilonova-{os.geteuid()}").symlink_to(mine)
    with pytest.raises(OSError, match="not a directory that only this user"):
        create_memory_directory("uid", tmp_path)
    assert not list(mine.iterdir())


async def test_volume_content_is_hidden_from_other_users(cluster: ProcessCluster) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
    await cluster.client.create(SECRETS, secret, "default")
    volumes = [
        {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o440}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": "v", "mountPath": "/made-up"}, {"name": "m", "mountPath": "/memory"}]
    script = "stat -L -c %a /made-up/k; echo kept > /memory/x; readlink -f /made-up/k; sleep 60"
    await cluster.run("p", "sh", "-c", script, container={"volumeMounts": mounts}, volumes=volumes)
    assert "440" in await cluster.wait_for_log("p", "/made-up/")
    assert stat.S_IMODE((cluster.data / "pods").stat().st_mode) == 0o700
    uid = (await cluster.client.get(PODS, "p", "default"))["metadata"]["uid"]
    kept = Path("/dev/shm") / f"kilonova-{os.geteuid()}" / uid
    assert (kept / "m" / "x").read_text() == "kept\n"
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    await cluster.client.delete(PODS, "p", "default", grace_period_seconds=0)
    await cluster.wait_for_deletion("p")
    deadline = asyncio.get_running_loop().time() + 10
    while kept.exists():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)


async def test_a_container_inherits_no_descriptor(cluster: ProcessCluster) -> None:
    await cluster.run("p", "sh", "-c", "ls -l /proc/self/fd; echo end", restartPolicy="Never")
    lines = (await cluster.wait_for_log("p", "end")).splitlines()
    shown = [line.partition(" -> ")[2] for line in lines if " -> " in line]
    # Beside the three, `ls` has the directory open that it lists.
    assert len(shown) == 4, shown
    assert not [each for each in shown if "shim" in each or "kilonova.db" in each]


async def test_modified_status_does_not_redirect_connections(cluster: ProcessCluster) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await cluster.run("p", "sleep", "60")
    pod = await cluster.wait_until("p", lambda pod: container_of(pod).get("ready"))
    own = pod["status"]["podIP"]
    forged = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    await cluster.client.patch(
        PODS, "p", forged, "default", patch_type=PatchType.MERGE, subresource="status"
    )
    kubelet = cluster.cluster.kubelets.get(cluster.node)
    with pytest.raises(ApiError, match="failed to connect"):
        await kubelet.dial(await cluster.client.get(PODS, "p", "default"), port)
    await cluster.wait_until("p", lambda pod: pod["status"]["podIP"] == own)
    server.close()


async def test_a_long_termination_message_is_read_at_its_end(cluster: ProcessCluster) -> None:
    script = (
        "head -c 300000000 /dev/zero > /dev/termination-log; printf end >> /dev/termination-log"
    )
    await cluster.run("p", "sh", "-c", script, restartPolicy="Never")
    pod = await cluster.wait_for_phase("p", "Succeeded")
    message = container_of(pod)["state"]["terminated"]["message"]
    assert len(message) == 4096
    assert message.endswith("end")


ODD_VOLUMES: list[Any] = [
    {"configMap": {"name": "m", "items": [{"key": "k", "path": "a\0b"}]}},
    {"configMap": {"name": "m", "items": [{"key": "k", "path": "x" * 300}]}},
    {"configMap": {"name": "m", "items": [{"key": "k", "path": "."}]}},
    {
        "configMap": {
            "name": "m",
            "items": [{"key": "k", "path": "a"}, {"key": "k", "path": "a/b"}],
        }
    },
    {"hostPath": {"path": "/a\0b"}},
    {"hostPath": {"path": "x" * 5000}},
]


@pytest.mark.parametrize("source", ODD_VOLUMES)
async def test_impossible_volume_is_reported_and_retried(
    source: Any, cluster: ProcessCluster
) -> None:
    body = {"metadata": {"name": "m"}, "data": {"k": "v"}}
    await cluster.client.create(CONFIG_MAPS, body, "default")
    await cluster.run("p", "true", volumes=[{"name": "v", **source}])
    assert 'failed for volume "v"' in await cluster.wait_for_event("p", "FailedMount")
    await cluster.client.delete(PODS, "p", "default")
    await cluster.wait_for_deletion("p")


async def test_an_empty_projection_is_an_empty_folder(cluster: ProcessCluster) -> None:
    volumes = [{"name": "v", "projected": {"sources": [{}]}}]
    mounts = [{"name": "v", "mountPath": "/made-up"}]
    await cluster.run(
        "p",
        "sh",
        "-c",
        "ls /made-up | wc -l",
        container={"volumeMounts": mounts},
        volumes=volumes,
        restartPolicy="Never",
    )
    await cluster.wait_for_phase("p", "Succeeded")
    assert (await cluster.logs("p")).split() == ["0"]


ODD_PROBES = [
    Probe(http_get=HttpGetAction(port=1, http_headers=(HttpHeader("A", "b\r\nC: d"),))),
    Probe(http_get=HttpGetAction(port=1, host="a b\r\n")),
    Probe(http_get=HttpGetAction(port=1, host="a" * 300)),
    Probe(http_get=HttpGetAction(port=1, host="a..b")),
    Probe(http_get=HttpGetAction(port=1, path="/x\r\nGET /y")),
    Probe(http_get=HttpGetAction(port=1, path="http://[")),
    Probe(http_get=HttpGetAction(port=99999)),
    Probe(tcp_socket=TcpSocketAction(port=99999)),
    Probe(tcp_socket=TcpSocketAction(port=1, host="a..b")),
    Probe(tcp_socket=TcpSocketAction(port=1, host="a\0b")),
    Probe(tcp_socket=TcpSocketAction(port="9" * 5000)),
    Probe(grpc=GrpcAction(port=99999)),
    Probe(grpc=GrpcAction(port=1, service="é\r\n")),
]


@pytest.mark.parametrize("probe", ODD_PROBES, ids=range(len(ODD_PROBES)))
async def test_invalid_probe_fails_without_breaking_the_worker(probe: Probe) -> None:
    runtime: Any = None  # no command is run
    target = ProbeTarget(Container("c"), "run", "127.0.0.1")
    outcome = ProbeResult(False)
    with contextlib.suppress(ProbeError):
        outcome = await Prober(runtime).probe_container(target, probe)
    assert not outcome.succeeded
