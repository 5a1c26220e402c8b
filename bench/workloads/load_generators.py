"""Load generators: a set that is scaled, or a process that sends plain requests."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from bench.home.servers import NAMESPACE
from bench.workloads.clusters import PLAIN_NAMESPACE, BenchmarkCluster
from bench.workloads.inputs import Inputs
from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.resources import SETS
from tests.workloads.manifests.load import load_set

SET_NAME = "big"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MANIFEST = load_set("scale-full")
_CLIQUE = _MANIFEST["spec"]["template"]["cliques"][0]["spec"]
PODS_OF_A_REPLICA: int = _CLIQUE["replicas"]


def build_set(name: str, replicas: int) -> JsonObject:
    """A set of so many replicas, with defaults applied."""
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {**_MANIFEST["spec"], "replicas": replicas}
    return apply_defaults({**_MANIFEST, "metadata": metadata, "spec": spec})


class LoadGenerator(Protocol):
    """Requests pods; returns when, by the clock of `time.monotonic`."""

    async def request_pods(self, pods: int) -> float:
        """Request so many pods in total."""
        ...

    async def delete_all(self) -> float:
        """Delete all pods, and what would create them again."""
        ...


class SetLoadGenerator:
    """Creates and scales one set."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._exists = False

    async def request_pods(self, pods: int) -> float:
        replicas = pods // PODS_OF_A_REPLICA
        body = build_set(SET_NAME, replicas)
        start = time.monotonic()
        if self._exists:
            await self._client.set_scale(SETS, SET_NAME, NAMESPACE, replicas)
        else:
            await self._client.create(SETS, body, NAMESPACE)
        self._exists = True
        return start

    async def delete_all(self) -> float:
        start = time.monotonic()
        await self._client.delete(SETS, SET_NAME, NAMESPACE)
        self._exists = False
        return start

    async def update_annotation(self) -> None:
        """Change an annotation without effect, as `kubectl apply` of an unchanged file does."""
        patch = {"metadata": {"annotations": {_LAST_APPLIED: str(time.time())}}}
        await self._client.patch(SETS, SET_NAME, patch, NAMESPACE)


class PlainPodGenerator:
    """A process that sends plain requests."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def request_pods(self, pods: int) -> float:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write(f"{pods}\n".encode())
        line = await answers.readline()
        if not line:
            raise RuntimeError("the process that sends plain requests has ended")
        return float(line)

    async def delete_all(self) -> float:
        return await self.request_pods(0)


@asynccontextmanager
async def running_plain_generator(
    cluster: BenchmarkCluster, folder: Path, inputs: Inputs
) -> AsyncGenerator[PlainPodGenerator]:
    """That process, with pods of the set's spec."""
    file = folder / "plain.json"
    file.write_bytes(msgspec.json.encode(_CLIQUE["podSpec"]))
    command = [
        sys.executable,
        "-m",
        "bench.workloads.plain_requests",
        str(cluster.access.kubeconfig),
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        PLAIN_NAMESPACE,
        str(inputs.connections),
        str(file),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield PlainPodGenerator(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
