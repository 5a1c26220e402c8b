"""Whoever asks for pods: a person who edits a set, or a process that sends plain requests."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from bench.home.servers import NAMESPACE
from bench.workloads.inputs import Inputs
from bench.workloads.stages import PLAIN_NAMESPACE, Stage
from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.resources import SETS
from tests.workloads.manifests.load import set_of

NAME = "big"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MANIFEST = set_of("scale-full")
_CLIQUE = _MANIFEST["spec"]["template"]["cliques"][0]["spec"]
PODS_OF_A_REPLICA: int = _CLIQUE["replicas"]


def set_body(name: str, replicas: int) -> JsonObject:
    """A set of so many replicas, as webhooks would have filled it in."""
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {**_MANIFEST["spec"], "replicas": replicas}
    return defaulted({**_MANIFEST, "metadata": metadata, "spec": spec})


class Asker(Protocol):
    """Asks for something; tells when it did, by the clock of `time.monotonic`."""

    async def have(self, pods: int) -> float:
        """Ask for so many pods in all."""
        ...

    async def leave(self) -> float:
        """Ask for all to go, and not to be wanted any more."""
        ...


class SetOwner:
    """Has one set, and edits it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_there = False

    async def have(self, pods: int) -> float:
        replicas = pods // PODS_OF_A_REPLICA
        body = set_body(NAME, replicas)
        began = time.monotonic()
        if self._is_there:
            await self._client.set_scale(SETS, NAME, NAMESPACE, replicas)
        else:
            await self._client.create(SETS, body, NAMESPACE)
        self._is_there = True
        return began

    async def leave(self) -> float:
        began = time.monotonic()
        await self._client.delete(SETS, NAME, NAMESPACE)
        self._is_there = False
        return began

    async def touch(self) -> None:
        """Change what means nothing, as `kubectl apply` does with a file that says the same."""
        note = {"metadata": {"annotations": {_LAST_APPLIED: str(time.time())}}}
        await self._client.patch(SETS, NAME, note, NAMESPACE)


class PlainRequests:
    """A process that sends them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def have(self, pods: int) -> float:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write(f"{pods}\n".encode())
        answer = await answers.readline()
        if not answer:
            raise RuntimeError("the process that sends plain requests has ended")
        return float(answer)

    async def leave(self) -> float:
        return await self.have(0)


@asynccontextmanager
async def plain_requests(
    stage: Stage, folder: Path, inputs: Inputs
) -> AsyncGenerator[PlainRequests]:
    """That process, with pods of the spec that the set has."""
    file = folder / "plain.json"
    file.write_bytes(msgspec.json.encode(_CLIQUE["podSpec"]))
    command = [sys.executable, "-m", "bench.workloads.plain", str(stage.access.kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        *command,
        PLAIN_NAMESPACE,
        str(inputs.connections),
        str(file),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield PlainRequests(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
