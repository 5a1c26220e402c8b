"""Why a GPUWorkload has no pods: what its conditions report."""

import asyncio
from pathlib import Path

from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.console.objects import GPU_WORKLOADS, GpuWorkload
from kilonova.kube import NotFound, connect

_WAITING = ("Failed", "Accepted", "Scheduled")
"""Conditions with the reason, the most important one first; Failed holds if it is true."""


def read_reason(namespace: str, name: str, kubeconfig: Path | None, context: str | None) -> str:
    """One line about a workload; empty if it does not exist, or says nothing."""

    async def read() -> GpuWorkload | None:
        async with connect(kubeconfig, context) as client:
            try:
                return await client.get(GPU_WORKLOADS, name, namespace)
            except NotFound:
                return None

    with translate_cluster_errors("read from", "; `kilonova doctor` lists missing permissions"):
        workload = asyncio.run(read())
    return "" if workload is None else format_reason(workload)


def format_reason(workload: GpuWorkload) -> str:
    """The phase of a workload, and the condition that explains it. Pure."""
    status = workload.status
    conditions = {each.type: each for each in status.conditions}
    for type_ in _WAITING:
        found = conditions.get(type_)
        if found is not None and (found.status == "True") == (type_ == "Failed"):
            subject = f"GPUWorkload {workload.metadata.id}"
            return f"{subject} is {status.phase}, without pods: {found.reason}: {found.message}"
    return ""
