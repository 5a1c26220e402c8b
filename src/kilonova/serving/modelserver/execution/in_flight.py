"""Requests in flight, to wait for their end."""

import asyncio


class InFlight:
    """A context of each request; `wait_until_idle` returns when there is none."""

    def __init__(self) -> None:
        self.count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        self.count += 1
        if self.count == 1:
            self._idle.clear()

    def __exit__(self, *error: object) -> None:
        self.count -= 1
        if not self.count:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Return when no request is in flight."""
        await self._idle.wait()
