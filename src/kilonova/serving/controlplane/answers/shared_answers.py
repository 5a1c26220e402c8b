"""Equal questions at about the same time are asked once.

A thousand jobs that start together ask for the same index: each server is asked for it once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kilonova.serving.gateway.model import ServiceKey

A = TypeVar("A")
AnswerKey = tuple[ServiceKey, str, tuple[str, bytes]]
"""Service, group and question."""


class SharedAnswers:
    """Answers that are being waited for, and for `seconds` those that came."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tasks: dict[AnswerKey, asyncio.Task[Any]] = {}

    async def get(self, key: AnswerKey, ask: Callable[[], Awaitable[A]]) -> A:
        """The answer to a question; `ask` is called unless it was asked just now.

        A client that gives up does not end the question for the others.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(_run(ask))
            task.add_done_callback(lambda done: self._keep(key, done))
        return await asyncio.shield(task)

    def forget(self, service: ServiceKey) -> None:
        """Ask again from now on, because the servers of a service changed."""
        for key in [key for key in self._tasks if key[0] == service]:
            del self._tasks[key]

    def _keep(self, key: AnswerKey, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._drop(key, task)
        else:
            asyncio.get_running_loop().call_later(self._seconds, self._drop, key, task)

    def _drop(self, key: AnswerKey, task: asyncio.Task[Any]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]


async def _run(ask: Callable[[], Awaitable[A]]) -> A:
    return await ask()
