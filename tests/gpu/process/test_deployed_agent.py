"""`kilonova run agent` with the account of `deploy/agent`, on both servers: it publishes, makes
instances, evicts and serves, and its account may do exactly what it uses."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.gpu.annotations import AGENT
from kilonova.gpu.agent.grpc.agent_grpc import NodeAgentStub
from kilonova.gpu.agent.grpc.agent_pb2 import (
    GetHealthRequest,
    GetTopologyRequest,
    ListPartitionsRequest,
    StreamTelemetryRequest,
)
from kilonova.kube import Client
from kilonova.kube.grpc import ClientTls, GrpcClient
from tests.conftest import Api
from tests.gpu.agent.agent_cluster import find_condition_of, list_instances
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import Permission, ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.local.embedded_cluster import EVENTS, NODES, PODS, find, wait_for_condition
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig

MANIFESTS = Path(__file__).parents[3] / "deploy" / "agent"
NAMESPACE = "kilonova-agent"

CAN: list[Permission] = [
    ("get", "", "nodes", ""),
    ("list", "", "nodes", ""),
    ("watch", "", "nodes", ""),
    ("patch", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("list", "", "pods", "team"),
    ("watch", "", "pods", "team"),
    ("create", "", "pods/eviction", "team"),
    ("create", "", "events", "team"),
    ("patch", "", "events", "team"),
    ("get", "resource.k8s.io", "resourceclaims", "team"),
    ("list", "resource.k8s.io", "resourceslices", ""),
    ("watch", "resource.k8s.io", "resourceslices", ""),
    ("create", "resource.k8s.io", "resourceslices", ""),
    ("patch", "resource.k8s.io", "resourceslices", ""),
    ("delete", "resource.k8s.io", "resourceslices", ""),
]
CANNOT: list[Permission] = [
    ("create", "", "nodes", ""),
    ("delete", "", "nodes", ""),
    ("get", "", "pods", "team"),
    ("delete", "", "pods", "team"),
    ("patch", "", "pods", "team"),
    ("patch", "", "pods/status", "team"),
    ("create", "", "pods", "team"),
    ("create", "", "pods/binding", "team"),
    ("create", "", "pods/exec", "team"),
    ("get", "", "secrets", "team"),
    ("get", "", "configmaps", NAMESPACE),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
    ("list", "resource.k8s.io", "resourceclaims", "team"),
    ("patch", "resource.k8s.io", "resourceclaims/status", "team"),
    ("patch", "resource.k8s.io", "deviceclasses", ""),
    ("list", "kgwe.nvidia.io", "gpuworkloads", "team"),
    ("get", "kgwe.nvidia.io", "migstrategies", ""),
    ("*", "*", "*", ""),
]


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with the applied manifests."""
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    wait_until(lambda: all(account(api).is_allowed(*each) for each in CAN))
    yield api
    done = kubectl(["delete", "-k", str(MANIFESTS), "--ignore-not-found"])
    assert done.code == 0, done.err


def account(api: Api) -> ServiceAccount:
    return ServiceAccount(api, NAMESPACE, "kilonova-agent")


def test_account_has_no_other_permissions(deployed: Api) -> None:
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {each: account(deployed).is_allowed(*each) for each in table} == table


@pytest.fixture
def kubelet_dir() -> Iterator[Path]:
    """A folder for the kubelet; paths of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="k-") as folder:
        yield Path(folder)


async def test_agent_does_all_of_it_with_its_account(
    deployed: Api, tmp_path: Path, kubelet_dir: Path
) -> None:
    node = f"gpu-of-{deployed.namespace}"
    token = account(deployed).request_token()
    kubeconfig = write_token_kubeconfig(deployed.access, tmp_path / "account", token)
    state = tmp_path / "state"
    options = ("--node-name", node, "--backend", "simulated:h100:2", "--state-dir", str(state))
    options += ("--kubelet-dir", str(kubelet_dir), "--cdi-dir", str(tmp_path / "cdi"))
    options += ("--port", "0", "--no-device-plugin")
    async with deployed.client() as client:
        await client.create(NODES, {"metadata": {"name": node}})
        try:
            with component_process("agent", kubeconfig, tmp_path, *options) as running:
                await exercise_agent(deployed, client, node)
                port = next(
                    each["port"] for each in running.read_log() if each.get("server") == "gpu agent"
                )
                await exercise_service(port, state / "tls" / "ca.crt", node)
                status, text = running.request("/metrics")
                assert status == 200
                assert "kilonova_gpu_node_writes_total" in text
            log = running.process.log.read_text()
            assert "forbidden" not in log.lower()
        finally:
            await client.delete(NODES, node)


async def exercise_agent(deployed: Api, client: Client, node: str) -> None:
    """Publish; make an instance for a pod; evict it from a node without healthy GPUs."""

    async def claimed() -> bool:
        found = await client.get(NODES, node)
        return AGENT in found["metadata"].get("annotations", {})

    await wait_for_condition(claimed)
    pod: Any = {
        "metadata": {"name": "p", "annotations": {"gpu.kilonova.dev/devices": "1:1g.10gb@2"}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "img"}]},
    }
    await client.create(PODS, pod, deployed.namespace)

    async def made() -> bool:
        return await list_instances(client, node) == {1: [("1g.10gb", 2)]}

    await wait_for_condition(made)

    async def ready() -> bool:
        found = await find_condition_of(client, node, "MIGReady")
        return found is not None and found["status"] == "True"

    await wait_for_condition(ready)

    async def told() -> bool:
        items = (await client.list(EVENTS)).items
        return any(
            each["reason"] == "MIGInstanceCreated" and each["involvedObject"]["name"] == node
            for each in items
        )

    await wait_for_condition(told)
    assert await find(client, PODS, "p", deployed.namespace) is not None


async def exercise_service(port: int, authority: Path, node: str) -> None:
    async with GrpcClient(f"localhost:{port}", tls=ClientTls(authority)) as client:
        stub = client.stub(NodeAgentStub)

        async def without_nvlink() -> bool:
            (path,) = (await stub.get_topology(GetTopologyRequest())).paths
            return (path.first, path.second, path.kind) == (0, 1, "PIX")

        topology = await stub.get_topology(GetTopologyRequest())
        assert (topology.node, len(topology.devices)) == (node, 2)
        assert topology.devices[0].product == "NVIDIA H100 80GB HBM3"
        # A device in MIG mode uses no NVLink.
        await wait_for_condition(without_nvlink)
        partitions = await stub.list_partitions(ListPartitionsRequest())
        (partition,) = partitions.partitions
        assert (partition.profile, partition.start, partition.device_index) == ("1g.10gb", 2, 1)
        assert partition.holder.endswith("/p")
        assert partition.state == "Allocated"
        health = [each async for each in stub.get_health(GetHealthRequest())]
        assert [each.state for each in health[0].devices] == ["Healthy", "Healthy"]
        request = StreamTelemetryRequest(window_seconds=1)
        async for window in stub.stream_telemetry(request):
            watts = [
                each.quantities["power_watts"] for each in window.devices if not each.instance_uuid
            ]
            assert len(watts) == 2
            assert all(0 < each.min <= each.mean <= each.max for each in watts)
            assert 0.9 < window.end - window.start < 5
            break


async def test_second_agent_on_a_node_stops_with_the_reason(deployed: Api, tmp_path: Path) -> None:
    node = f"twice-of-{deployed.namespace}"
    token = account(deployed).request_token()
    kubeconfig = write_token_kubeconfig(deployed.access, tmp_path / "account", token)
    options = ("--node-name", node, "--backend", "simulated:l4", "--no-grpc")
    options += ("--state-dir", str(tmp_path / "state"), "--no-device-plugin", "--no-dra")
    async with deployed.client() as client:
        await client.create(NODES, {"metadata": {"name": node}})
        try:
            with component_process("agent", kubeconfig, tmp_path, *options):
                second = await asyncio.create_subprocess_exec(
                    *component_command(kubeconfig, options),
                    stderr=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                )
                _, errors = await asyncio.wait_for(second.communicate(), 60)
                assert second.returncode == 1
                assert b"nothing was changed" in errors
        finally:
            await client.delete(NODES, node)


def component_command(kubeconfig: Path, options: tuple[str, ...]) -> list[str]:
    command = [sys.executable, "-P", "-m", "kilonova.cli", "run", "agent"]
    return [*command, "--kubeconfig", str(kubeconfig), "--health-port", "0", *options]


async def test_folder_with_too_long_sockets_is_rejected(deployed: Api, tmp_path: Path) -> None:
    node = f"long-of-{deployed.namespace}"
    token = account(deployed).request_token()
    kubeconfig = write_token_kubeconfig(deployed.access, tmp_path / "account", token)
    options = ("--node-name", node, "--backend", "simulated:l4", "--no-grpc", "--no-exporter")
    options += ("--state-dir", str(tmp_path / "state"), "--kubelet-dir", str(tmp_path / ("k" * 99)))
    async with deployed.client() as client:
        await client.create(NODES, {"metadata": {"name": node}})
        try:
            started = await asyncio.create_subprocess_exec(
                *component_command(kubeconfig, options),
                stderr=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
            )
            _, errors = await asyncio.wait_for(started.communicate(), 60)
            assert started.returncode == 1
            assert b"--kubelet-dir" in errors
            assert b"choose a shorter kubelet folder" in errors
            assert b"Traceback" not in errors
        finally:
            await client.delete(NODES, node)
