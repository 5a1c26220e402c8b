"""Calls of a blocking backend, from an event loop: one at a time for each device, with a limit.

A driver that hangs cannot be interrupted. Its call goes on in its thread after the limit, and until
it returns no other call reaches that device: each fails with TIMEOUT, and names what still runs.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind

T = TypeVar("T")


class DeviceCalls(Protocol):
    """Runs functions that block, for a device."""

    async def run(
        self, device: str, operation: str, function: Callable[[], T], timeout: float
    ) -> T:
        """The result of the function, or what it raises; `GpuError` TIMEOUT after `timeout`."""
        ...


class ThreadCalls:
    """Calls in a thread each; threads of calls that hang do not keep the process alive."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}

    async def run(
        self, device: str, operation: str, function: Callable[[], T], timeout: float
    ) -> T:
        if device in self._running:
            raise GpuError(
                GpuErrorKind.TIMEOUT,
                operation,
                device=device,
                detail=f"the driver has not returned from {self._running[device]}",
            )
        self._running[device] = operation
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def finish(value: T | None, error: BaseException | None) -> None:
            del self._running[device]
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # pyright: ignore[reportArgumentType]

        def call() -> None:
            value: T | None = None
            error: BaseException | None = None
            try:
                value = function()
            except BaseException as raised:  # handed to the caller, whatever it is
                error = raised
            try:
                loop.call_soon_threadsafe(finish, value, error)
            except RuntimeError:
                return  # the loop is closed: nothing waits

        threading.Thread(target=call, name=f"mig-{operation}", daemon=True).start()
        try:
            return await asyncio.wait_for(asyncio.shield(result), timeout)
        except TimeoutError:
            if result.done():
                return result.result()
            result.cancel()
            raise GpuError(
                GpuErrorKind.TIMEOUT,
                operation,
                device=device,
                detail=f"no answer within {timeout:g} s",
            ) from None
        except asyncio.CancelledError:
            result.cancel()  # nothing waits for the result any more
            raise


class InlineCalls:
    """Calls in the event loop itself, for backends that never block, such as those in memory."""

    async def run(
        self, device: str, operation: str, function: Callable[[], T], timeout: float
    ) -> T:
        del device, operation, timeout
        return function()
