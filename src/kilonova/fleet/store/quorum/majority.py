"""Requests to all three stores, until the answers of two decide."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kilonova.objectstore import ObjectStoreError, Unavailable

T = TypeVar("T")

MAJORITY = 2


@dataclass
class Answers(Generic[T]):
    """The answers so far, by the index of the store."""

    values: dict[int, T] = field(default_factory=dict[int, T])
    errors: dict[int, ObjectStoreError] = field(default_factory=dict[int, ObjectStoreError])


class Requests:
    """Runs requests; those that are not waited for end in the background."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def ask(
        self,
        store: str,
        requests: dict[int, Coroutine[Any, Any, T]],
        is_enough: Callable[[Mapping[int, T]], bool],
    ) -> Answers[T]:
        """Wait until the answers are enough, or all are there; `Unavailable` if fewer than a
        majority of the stores answered."""
        answers: Answers[T] = Answers()
        tasks = {asyncio.ensure_future(each): index for index, each in requests.items()}
        self._running.update(tasks)
        for task in tasks:
            task.add_done_callback(self._forget)
        pending = set(tasks)
        while pending and not (len(answers.values) >= MAJORITY and is_enough(answers.values)):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    answers.values[tasks[task]] = task.result()
                elif isinstance(error, ObjectStoreError):
                    answers.errors[tasks[task]] = error
                else:
                    raise error
        if len(answers.values) < MAJORITY:
            problems = "; ".join(str(error) for error in answers.errors.values())
            raise Unavailable(store, f"fewer than two of three stores are available: {problems}")
        return answers

    async def close(self) -> None:
        """Cancel what runs in the background."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, so that it is not reported as never retrieved
