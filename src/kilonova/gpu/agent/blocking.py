"""How an agent waits for devices, which block."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs a function that blocks, as `asyncio.to_thread` does."""

    async def __call__(
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...


@dataclass(frozen=True, slots=True)
class Blocking:
    """How the agent waits for its devices. `monotonic` is in seconds."""

    in_thread: InThread = asyncio.to_thread
    event_seconds: float = 2.0
    """How long one call waits for events."""
    monotonic: Callable[[], float] = time.monotonic


IN_THREADS = Blocking()
"""As it is outside of tests."""
