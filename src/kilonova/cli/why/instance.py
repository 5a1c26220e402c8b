"""Why an InferenceEngineInstance has no pods: what its condition reports."""

import asyncio
from pathlib import Path

from kilonova.api.inference_engine import InferenceEngineInstance
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.instances.resources import INSTANCES
from kilonova.kube import NotFound, connect
from kilonova.kube.status import find_condition


def read_reason(namespace: str, name: str, kubeconfig: Path | None, context: str | None) -> str:
    """One line about an instance; empty if it does not exist, or says nothing."""

    async def read() -> InferenceEngineInstance | None:
        async with connect(kubeconfig, context) as client:
            try:
                return await client.get(INSTANCES, name, namespace)
            except NotFound:
                return None

    with translate_cluster_errors("read from", "; `kilonova doctor` lists missing permissions"):
        instance = asyncio.run(read())
    return "" if instance is None else format_reason(instance)


def format_reason(instance: InferenceEngineInstance) -> str:
    """The phase of an instance, and why it is not allocated. Pure."""
    metadata, status = instance.metadata, instance.status
    found = find_condition(status.conditions, "Allocated")
    if found is None or found.status == "True":
        return ""
    subject = f"InferenceEngineInstance {metadata.namespace}/{metadata.name}"
    return f"{subject} is {status.phase}, without pods: {found.reason}: {found.message}"
