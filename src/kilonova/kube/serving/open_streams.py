"""The streams that a server is sending: watches, events, logs, upgraded connections."""

import asyncio
from collections.abc import Coroutine


class OpenStreams:
    """Streams do not end by themselves: each runs until its client disconnects or the server
    stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def run(
        self, stream: Coroutine[None, None, None], disconnected: Coroutine[None, None, None]
    ) -> Exception | None:
        """Run until the stream ends, its client has disconnected, or the server stops. Returns the
        exception of the stream, if it failed."""
        sending, waiting = asyncio.create_task(stream), asyncio.create_task(disconnected)
        self._tasks.add(sending)
        if self._is_stopping:
            sending.cancel()
        try:
            await asyncio.wait((sending, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._tasks.discard(sending)
            sending.cancel()
            waiting.cancel()
            result, _ = await asyncio.gather(sending, waiting, return_exceptions=True)
        return result if isinstance(result, Exception) else None

    def cancel(self) -> None:
        """End all streams, and every later one at once."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """Cancel all streams and wait until they have ended."""
        tasks = list(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
