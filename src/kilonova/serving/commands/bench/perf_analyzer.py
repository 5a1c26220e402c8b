"""Triton's perf_analyzer as a Job, against the gateway of a service."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import typer

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, names
from kilonova.component.failure import CommandFailed
from kilonova.kube import Client, KubeError, Resource, unstructured_resource
from kilonova.serving.commands.cluster_access import ServiceCluster, get_service
from kilonova.serving.controllers.service.server_status import explain_pod
from kilonova.serving.resources import PODS, Pod

DEFAULT_IMAGE = "nvcr.io/nvidia/tritonserver:26.04-py3-sdk"
_KEEP_SECONDS = 3600
_POLL_SECONDS = 0.5
_START_SECONDS = 300.0
"""How long its pod may take to start: an image of 10 GB is pulled."""
_CONTAINER = "perf-analyzer"
_JOBS: Resource[Any] = unstructured_resource("batch", "v1", "jobs", "Job", True)


class _JobStatus(msgspec.Struct, frozen=True):
    succeeded: int = 0
    failed: int = 0


class _Job(msgspec.Struct, frozen=True):
    metadata: Metadata
    status: _JobStatus = _JobStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfAnalyzerOptions:
    """The arguments of perf_analyzer."""

    model: str
    concurrency: int = 1
    batch: int = 1
    requests: int | None = None
    shapes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    image: str = ""


def build_job(service: InferenceService, options: PerfAnalyzerOptions) -> JsonObject:
    """The Job; its pod reaches the gateway by the name of its Service."""
    known = service.metadata
    port = service.spec.gateway.grpc_port
    if not port:
        raise CommandFailed(f"{known.name} has no port for gRPC: set gateway.grpcPort")
    if not options.model:
        raise CommandFailed("name a model by --model: perf_analyzer needs one")
    address = f"{names.build_gateway_service(known.name)}.{known.namespace}.svc.cluster.local"
    words = ["perf_analyzer", "-m", options.model, "-i", "grpc", "-u", f"{address}:{port}"]
    words += ["--async", "-b", str(options.batch)]
    words += ["--concurrency-range", str(options.concurrency)]
    if options.requests is not None:
        words += ["--request-count", str(options.requests)]
    for shape in options.shapes:
        words += ["--shape", shape]
    for header in options.headers:
        words += ["-H", header]
    container = {"name": _CONTAINER, "image": options.image or DEFAULT_IMAGE, "command": words}
    labels = {grove_names.MANAGED_BY: "kilonova-serve"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": _JOBS.api_version,
        "kind": _JOBS.kind,
        "metadata": {
            "generateName": f"{known.name}-perf-analyzer-",
            "namespace": known.namespace,
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEEP_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def run_perf_analyzer(
    cluster: ServiceCluster, name: str, options: PerfAnalyzerOptions, *, dry_run: bool
) -> None:
    """Create the Job, wait for it, and print what it printed; `CommandFailed` if it failed."""

    async def run(client: Client) -> None:
        job = build_job(await get_service(client, name, cluster.namespace), options)
        if dry_run:
            typer.echo(msgspec.yaml.encode(job).decode().rstrip())
            return
        created = await client.create(_JOBS.as_type(_Job), job, cluster.namespace)
        typer.echo(f"job/{created.metadata.name} created", err=True)
        await _finish(client, created.metadata)

    cluster.run(run)


async def _finish(client: Client, known: Metadata) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + _START_SECONDS
    told = ""
    while True:
        job = await client.get(_JOBS.as_type(_Job), known.name, known.namespace)
        pods = await _list_pods(client, known)
        if job.status.succeeded or job.status.failed:
            break
        waits_for = next((text for each in pods if (text := explain_pod(each))), "")
        if waits_for and waits_for != told:
            told = waits_for
            typer.echo(f"job/{known.name}: {waits_for}", err=True)
        if clock() > deadline and not any(each.status.phase == "Running" for each in pods):
            raise CommandFailed(
                f"job/{known.name} has not started after {_START_SECONDS:g} s: {told or 'no pod'}"
            )
        await asyncio.sleep(_POLL_SECONDS)
    for pod in pods:
        try:
            async for chunk in client.logs(pod.metadata.name, known.namespace):
                typer.echo(chunk.decode(errors="replace"), nl=False)
        except KubeError as error:
            typer.echo(f"{pod.metadata.name} has no log: {error}", err=True)
    if job.status.failed:
        raise CommandFailed(f"job/{known.name} failed: its output is above")


async def _list_pods(client: Client, job: Metadata) -> list[Pod]:
    selector = f"batch.kubernetes.io/job-name={job.name}"
    found = await client.list(PODS, job.namespace, label_selector=selector)
    return found.items
