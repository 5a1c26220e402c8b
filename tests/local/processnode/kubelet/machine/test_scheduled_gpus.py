"""GPUs from the Node's annotation through the scheduler to `CUDA_VISIBLE_DEVICES`."""

from pathlib import Path
from typing import Any

from kilonova.api.gpu.annotations import MILLI, Gpu, MigInstance
from tests.local.embedded_cluster import NODES, PODS
from tests.local.processnode.kubelet.process_cluster import ProcessCluster, process_cluster

H200 = Gpu(uuid="GPU-a", product="NVIDIA-H200", memory=143771, architecture="Hopper")
IN_MIG_MODE = Gpu(
    uuid="GPU-b",
    product="NVIDIA-H200",
    memory=143771,
    architecture="Hopper",
    mig_enabled=True,
    instances=(MigInstance("MIG-a", "1g.18gb", 1), MigInstance("MIG-b", "1g.18gb", 4)),
)
SCRIPT = "echo =$CUDA_VISIBLE_DEVICES=; exec sleep 1000"


async def submit(cluster: ProcessCluster, name: str, limits: Any, **annotations: str) -> None:
    """Create a pod for our scheduler."""
    container: Any = {"name": "main", "image": "none", "command": ["sh", "-c", SCRIPT]}
    spec = {
        "schedulerName": "kilonova-scheduler",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [{**container, "resources": {"limits": limits}}],
    }
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    await cluster.client.create(PODS, body, "default")


def is_unschedulable(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in conditions)


async def test_pods_get_different_mig_instances_that_exist(tmp_path: Path) -> None:
    one = {"nvidia.com/mig-1g.18gb": 1}
    async with process_cluster(tmp_path / "data", gpus=(IN_MIG_MODE,)) as cluster:
        for name in ("a", "b"):
            await submit(cluster, name, one)
        logs = {await cluster.wait_for_log(name, "=\n") for name in ("a", "b")}
        assert logs == {"=MIG-a=\n", "=MIG-b=\n"}
        await submit(cluster, "more", one)
        await submit(cluster, "whole", {"nvidia.com/gpu": 1})
        for name in ("more", "whole"):
            await cluster.wait_until(name, is_unschedulable)


async def test_pods_share_a_gpu_up_to_its_capacity(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data", gpus=(H200,)) as cluster:
        for name in ("a", "b"):
            await submit(cluster, name, {}, **{MILLI: "500"})
            assert await cluster.wait_for_log(name, "=\n") == "=0=\n"
        await submit(cluster, "more", {}, **{MILLI: "100"})
        await cluster.wait_until("more", is_unschedulable)


async def test_gpu_in_mig_mode_is_no_longer_allocatable_as_a_whole(tmp_path: Path) -> None:
    async def read_gpus(cluster: ProcessCluster) -> list[dict[str, str]]:
        (node,) = (await cluster.client.list(NODES)).items
        return [
            {name: count for name, count in node["status"][amounts].items() if "nvidia" in name}
            for amounts in ("capacity", "allocatable")
        ]

    async with process_cluster(tmp_path / "data", gpus=(H200,)) as cluster:
        assert await read_gpus(cluster) == [{"nvidia.com/gpu": "1"}] * 2
    async with process_cluster(tmp_path / "data", gpus=(IN_MIG_MODE,)) as cluster:
        assert await read_gpus(cluster) == [{"nvidia.com/mig-1g.18gb": "2"}] * 2
