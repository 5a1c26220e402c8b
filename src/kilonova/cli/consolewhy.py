"""What the console says when somebody asks why: the words of `kilonova why`.

To read a big cluster takes some hundred milliseconds of computing, in which no page would be
told of anything. So it is done in a thread with an event loop of its own; only its requests are
carried by the client of the console.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from kilonova.cli.picturing import usual_settings
from kilonova.cli.whytext import answer_text
from kilonova.console import Explain, Explained
from kilonova.kube import Client, Reply, Request, StreamReply
from kilonova.scheduler.answering import answer
from kilonova.scheduler.capturing import Captured, capture


def explainer(client: Client, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Explain:
    """Works answers out anew, from the cluster as it is, one at a time."""
    one = asyncio.Lock()

    async def explain(namespace: str, name: str) -> Explained | None:
        elsewhere = Client(_Carried(client, asyncio.get_running_loop()))
        async with one:
            return await asyncio.to_thread(work_out, elsewhere, namespace, name)

    async def captured(client: Client) -> Captured:
        return await capture(client, await usual_settings(client), now=now)

    def work_out(client: Client, namespace: str, name: str) -> Explained | None:
        seen = asyncio.run(captured(client))
        found = answer(seen.picture, namespace, name, seen.unserved)
        return None if found is None else Explained(answer_text(found, seen.picture.now), found)

    return explain


class _Carried:
    """A transport for one event loop, over a client that lives in another."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    async def send(self, request: Request) -> Reply:
        sent = asyncio.run_coroutine_threadsafe(self._client.send(request), self._loop)
        return await asyncio.wrap_future(sent)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError(f"{request.path} is listed, not watched")

    async def close(self) -> None:
        """The client is not ours."""
