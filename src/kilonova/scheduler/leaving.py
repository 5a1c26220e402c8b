"""Pods that were told to go, until they are gone.

Their room belongs to somebody else already, who is not to come before it is there.
"""

import asyncio
from collections.abc import Collection


class Leavers:
    """Who leaves, and from which node."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._changed: set[asyncio.Future[None]] = set()

    def __contains__(self, pod: str) -> bool:
        return pod in self._nodes

    def add(self, pod: str, node: str) -> None:
        """A pod was told to go; its node is empty while none is known."""
        self._nodes[pod] = node

    def discard(self, pod: str) -> None:
        """A pod is gone, or stays after all."""
        if self._nodes.pop(pod, None) is not None:
            self.notify()

    def notify(self) -> None:
        """Has those who wait look again."""
        for waiter in self._changed:
            if not waiter.done():
                waiter.set_result(None)

    def still(self, pods: Collection[str], nodes: Collection[str]) -> list[str]:
        """Which of these pods are not gone, and who else leaves these nodes."""
        if not self._nodes:
            return []
        return [pod for pod, node in self._nodes.items() if pod in pods or node in nodes]

    def nodes(self) -> set[str]:
        """Which nodes somebody leaves."""
        return set(self._nodes.values())

    async def gone(self, pods: Collection[str], nodes: Collection[str]) -> None:
        """Waits until none is left of them."""
        while self.still(pods, nodes):
            await self.changed(None)

    async def changed(self, within: float | None) -> None:
        """Waits until one is gone, or stays after all; not for longer than `within` seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._changed.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=within)
        finally:
            self._changed.discard(waiter)
