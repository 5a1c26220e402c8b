"""Calls of simulated devices: in the event loop, after the time that hardware would take."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kilonova.gpu.devices.simulated import MigDurations

T = TypeVar("T")


class PacedCalls:
    """`DeviceCalls` of a backend that does not wait itself. No threads: time may be virtual."""

    def __init__(
        self,
        durations: MigDurations | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        times = durations or MigDurations()
        self._sleep = sleep
        self._seconds = {
            "enable": times.set_mode,
            "disable": times.set_mode,
            "create": times.create,
            "destroy": times.destroy,
            "reset": times.reset,
        }

    async def run(
        self, device: str, operation: str, function: Callable[[], T], timeout: float
    ) -> T:
        del device, timeout
        seconds = self._seconds.get(operation, 0.0)
        if seconds:
            await self._sleep(seconds)
        return function()
