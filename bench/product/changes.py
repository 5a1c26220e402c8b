"""Pods that nobody places, and a steady pace of changes of what is said about them."""

import asyncio
import time
from collections.abc import Sequence

from bench.home.pods import encoded, realistic_pod
from bench.home.servers import NAMESPACE
from bench.home.wire import Connection, connections, request
from tests.harness.access import Access

PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE_PATCH = "application/merge-patch+json"
_CONNECTIONS = 16


async def make_pods(access: Access, count: int) -> None:
    """Pods that wait for a scheduler that does not exist."""
    async with connections(access, 1) as (connection,):
        for number in range(count):
            body = encoded(realistic_pod(name=_name(number)))
            await connection.ask(request("POST", PODS_PATH, body))


async def change_steadily(
    access: Access, pods: int, numbers: Sequence[int], per_second: int, sent: dict[int, float]
) -> None:
    """Say something new about one pod after the other, at a pace that does not wait for answers.

    What is said has the number of the change in it; `sent` gets when it was sent, in seconds
    since the epoch.
    """
    async with connections(access, _CONNECTIONS) as opened, asyncio.TaskGroup() as group:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in opened:
            free.put_nowait(connection)
        began = time.monotonic()
        for position, number in enumerate(numbers):
            await asyncio.sleep(began + position / per_second - time.monotonic())
            sent[number] = time.time()
            group.create_task(_change(free, _name(number % pods), number))


async def _change(free: "asyncio.Queue[Connection]", name: str, number: int) -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"bench-{number}",
    }
    body = encoded({"status": {"conditions": [condition]}})
    message = request("PATCH", f"{PODS_PATH}/{name}/status", body, _MERGE_PATCH)
    connection = await free.get()
    await connection.ask(message)
    free.put_nowait(connection)


def _name(number: int) -> str:
    return f"told-{number}"
