"""Creates and deletes pods by plain requests: `KUBECONFIG NAMESPACE CONNECTIONS SPEC-FILE`.

Reads numbers from standard input, one per line, and scales the namespace to so many pods each time.
It prints the time, by the system-wide monotonic clock, at which it sent the first request.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from kilonova.kube import Client, Resource, connect
from kilonova.workloads.resources import PODS


class _Undecoded(msgspec.Struct, gc=False):
    """A response that is not decoded."""


_PODS_UNDECODED: Resource[Any] = Resource("", "v1", "pods", "Pod", True, _Undecoded)


async def run_commands(kubeconfig: Path, namespace: str, connections: int, spec: Any) -> None:
    """Run until the end of input."""
    loop = asyncio.get_running_loop()
    async with connect(kubeconfig, field_manager="bench") as client:
        await client.list(PODS, namespace)
        current = 0
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            wanted = int(line)
            print(time.monotonic(), flush=True)
            if wanted > current:
                calls = (
                    _create_pod(client, namespace, number, spec)
                    for number in range(current, wanted)
                )
            else:
                calls = (
                    client.delete(PODS, f"p-{number}", namespace)
                    for number in range(wanted, current)
                )
            await _run_concurrently(calls, connections)
            current = wanted


async def _create_pod(client: Client, namespace: str, number: int, spec: Any) -> None:
    body = {"metadata": {"name": f"p-{number}", "labels": {"app": "plain"}}, "spec": spec}
    await client.create(_PODS_UNDECODED, body, namespace)


async def _run_concurrently(calls: Any, connections: int) -> None:
    async def take() -> None:
        for call in calls:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(take())


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[4]).read_bytes())
    uvloop.run(run_commands(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), given))
