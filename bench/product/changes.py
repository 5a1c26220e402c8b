"""Unschedulable pods, and a constant rate of changes to their conditions."""

import asyncio
import time
from collections.abc import Sequence

from bench.home.pods import build_realistic_pod, encode_pod
from bench.home.raw_http import Connection, encode_request, open_connections
from bench.home.servers import NAMESPACE
from tests.harness.access import ServerAccess

PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE_PATCH = "application/merge-patch+json"
_CONNECTIONS = 16


async def create_pods(access: ServerAccess, count: int) -> None:
    """Create pods with a scheduler that does not exist."""
    async with open_connections(access, 1) as (connection,):
        for number in range(count):
            body = encode_pod(build_realistic_pod(name=_pod_name(number)))
            await connection.send(encode_request("POST", PODS_PATH, body))


async def change_at_rate(
    access: ServerAccess, pods: int, numbers: Sequence[int], per_second: int, sent: dict[int, float]
) -> None:
    """Patch the condition of one pod after the other at a constant rate, without waiting for
    responses.

    The message contains the number of the change; `sent` receives when it was sent, in seconds
    since the epoch.
    """
    async with open_connections(access, _CONNECTIONS) as opened, asyncio.TaskGroup() as group:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.monotonic()
        for position, number in enumerate(numbers):
            await asyncio.sleep(began + position / per_second - time.monotonic())
            sent[number] = time.time()
            group.create_task(_patch_pod(free, _pod_name(number % pods), number))


async def _patch_pod(idle_connections: "asyncio.Queue[Connection]", name: str, number: int) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"bench-{number}",
    }
    body = encode_pod({"status": {"conditions": [condition]}})
    message = encode_request("PATCH", f"{PODS_PATH}/{name}/status", body, _MERGE_PATCH)
    connection = await idle_connections.get()
    await connection.send(message)
    idle_connections.put_nowait(connection)


def _pod_name(number: int) -> str:
    return f"changing-{number}"
