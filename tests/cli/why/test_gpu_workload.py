"""GPUWorkloads without pods: `kilonova why` and `kilonova workloads` say what their status says."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.cli.install import install_definitions
from kilonova.cli.why.gpu_workload import format_reason
from kilonova.console.objects import GpuWorkload
from kilonova.kube import connect
from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import Kilonova
from tests.local.embedded_cluster import wait_for_condition

WORKLOADS = unstructured_resource("kgwe.nvidia.io", "v1", "gpuworkloads", "GPUWorkload", True)
MESSAGE = (
    "spec.podTemplate: is missing: add spec.podTemplate.spec.containers with the image that uses "
    "the GPUs"
)


def condition(type_: str, status: str, reason: str, message: str) -> Any:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-05-01T00:00:00Z",
    }


REJECTED = condition("Accepted", "False", "NoPodTemplate", MESSAGE)


@pytest.fixture(scope="module")
def data(cluster: Path) -> Path:
    """Data directory of a cluster with a workload that has no pods."""

    async def create() -> None:
        async with connect(cluster / "kubeconfig") as client:
            await install_definitions(client)
            body = {"metadata": {"name": "bare"}, "spec": {"gpuRequirements": {"count": 8}}}
            await client.create(WORKLOADS, body, "default")

            async def is_rejected() -> bool:
                found = await client.get(WORKLOADS, "bare", "default")
                return bool(found.get("status", {}).get("conditions"))

            await wait_for_condition(is_rejected)

    asyncio.run(create())
    return cluster


def test_why_says_what_keeps_it_from_having_pods(cluster_command: Kilonova, data: Path) -> None:
    done = cluster_command("why", "gw/bare", "--data", data)
    assert done.code == 1
    line = f"GPUWorkload default/bare is Pending, without pods: NoPodTemplate: {MESSAGE}"
    assert line in done.err
    missing = cluster_command("why", "gw/nothing", "--data", data)
    assert "no pod or gang of gpuworkload 'nothing'" in missing.err


def test_workload_without_pods_is_listed(cluster_command: Kilonova, data: Path) -> None:
    done = cluster_command("workloads", "-o", "json", "--data", data)
    (found,) = (each for each in json.loads(done.out) if each["name"] == "bare")
    assert (found["kind"], found["status"]) == ("GPUWorkload", "Creating")
    assert found["why"] == MESSAGE


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([REJECTED], f"NoPodTemplate: {MESSAGE}"),
        (
            [
                condition("Accepted", "True", "Valid", "ok"),
                condition("Scheduled", "False", "WaitingForPod", "pod x/a has no node"),
            ],
            "WaitingForPod: pod x/a has no node",
        ),
        (
            [REJECTED, condition("Failed", "True", "PodFailed", "pod a-0 has failed")],
            "PodFailed: pod a-0 has failed",
        ),
        ([], ""),
    ],
)
def test_reason_is_that_of_the_most_important_condition(
    conditions: list[Any], expected: str
) -> None:
    body = {
        "metadata": {"name": "a", "namespace": "x"},
        "status": {"phase": "Pending", "conditions": conditions},
    }
    reason = format_reason(msgspec.convert(body, GpuWorkload))
    assert reason == (expected and f"GPUWorkload x/a is Pending, without pods: {expected}")
