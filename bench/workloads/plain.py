"""Creates and deletes pods by plain requests: `KUBECONFIG NAMESPACE CONNECTIONS SPEC-FILE`.

Reads numbers from its input, one a line, and brings the namespace to so many pods each time. It
answers with the time, by the clock that all processes share, at which it sent the first request.
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


class _Anything(msgspec.Struct, gc=False):
    """An answer that nobody reads."""


_UNREAD: Resource[Any] = Resource("", "v1", "pods", "Pod", True, _Anything)


async def serve(kubeconfig: Path, namespace: str, connections: int, spec: Any) -> None:
    """Until there is no more input."""
    loop = asyncio.get_running_loop()
    async with connect(kubeconfig, field_manager="bench") as client:
        await client.list(PODS, namespace)
        have = 0
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            wanted = int(line)
            print(time.monotonic(), flush=True)
            if wanted > have:
                calls = (_create(client, namespace, number, spec) for number in range(have, wanted))
            else:
                calls = (
                    client.delete(PODS, f"p-{number}", namespace) for number in range(wanted, have)
                )
            await _all(calls, connections)
            have = wanted


async def _create(client: Client, namespace: str, number: int, spec: Any) -> None:
    body = {"metadata": {"name": f"p-{number}", "labels": {"app": "plain"}}, "spec": spec}
    await client.create(_UNREAD, body, namespace)


async def _all(calls: Any, connections: int) -> None:
    async def take() -> None:
        for call in calls:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(take())


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[4]).read_bytes())
    uvloop.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), given))
