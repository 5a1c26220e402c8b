"""The explanations of the console: the same as of `kilonova why`.

Decoding a large cluster takes some hundred milliseconds of CPU time, which would block the event
loop of the console. It is done in a thread with an event loop of its own; only its requests are
sent by the console's client, in the console's loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from kilonova.cli.why.answer_text import format_answer
from kilonova.console import Explain, Explained
from kilonova.kube import Client, Reply, Request, StreamReply
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.capture import CapturedSnapshot, capture_snapshot
from kilonova.scheduler.snapshot_source import default_scheduler_settings


def build_explainer(
    client: Client, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Explain:
    """Explanations computed from the current state of the cluster, one at a time."""
    lock = asyncio.Lock()

    async def explain(namespace: str, name: str) -> Explained | None:
        thread_client = Client(_CrossLoopTransport(client, asyncio.get_running_loop()))
        async with lock:
            return await asyncio.to_thread(compute_explanation, thread_client, namespace, name)

    async def capture_cluster(client: Client) -> CapturedSnapshot:
        return await capture_snapshot(client, await default_scheduler_settings(client), now=now)

    def compute_explanation(client: Client, namespace: str, name: str) -> Explained | None:
        captured = asyncio.run(capture_cluster(client))
        snapshot = captured.cluster_snapshot
        report = report_placement(snapshot, namespace, name, captured.unserved)
        return None if report is None else Explained(format_answer(report, snapshot.now), report)

    return explain


class _CrossLoopTransport:
    """A transport for one event loop over a client of another."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    async def send(self, request: Request) -> Reply:
        sent = asyncio.run_coroutine_threadsafe(self._client.send(request), self._loop)
        return await asyncio.wrap_future(sent)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError(f"{request.path} is listed, not watched")

    async def close(self) -> None:
        """Does nothing: the client belongs to the console."""
