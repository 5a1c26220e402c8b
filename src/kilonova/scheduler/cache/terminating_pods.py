"""Evicted pods until they are deleted.

Their capacity is already nominated for another gang, which must not be bound before it is free.
"""

import asyncio
from collections.abc import Collection


class TerminatingPods:
    """Terminating pods and their nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._waiters: set[asyncio.Future[None]] = set()

    def __contains__(self, pod: str) -> bool:
        return pod in self._nodes

    def add(self, pod: str, node: str) -> None:
        """A pod was evicted; its node is empty if unknown."""
        self._nodes[pod] = node

    def discard(self, pod: str) -> None:
        """A pod was deleted, or is not evicted after all."""
        if self._nodes.pop(pod, None) is not None:
            self.notify_waiters()

    def notify_waiters(self) -> None:
        """Have all waiters check again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def remaining(self, pods: Collection[str], nodes: Collection[str]) -> list[str]:
        """Which of these pods have not terminated, and all other pods terminating on these
        nodes."""
        if not self._nodes:
            return []
        return [pod for pod, node in self._nodes.items() if pod in pods or node in nodes]

    def nodes(self) -> set[str]:
        """The nodes with terminating pods."""
        return set(self._nodes.values())

    async def wait_until_gone(self, pods: Collection[str], nodes: Collection[str]) -> None:
        """Wait until none of them remains."""
        while self.remaining(pods, nodes):
            await self.wait_for_change(None)

    async def wait_for_change(self, timeout: float | None) -> None:
        """Wait until a pod is deleted or stays, for at most `timeout` seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=timeout)
        finally:
            self._waiters.discard(waiter)
