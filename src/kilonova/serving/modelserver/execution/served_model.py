"""A loaded model with its queue: requests wait for an instance, alone or as a batch.

A request that finds an idle instance, and need not wait for others, is executed in the task of its
caller. All others wait in the queue, in order, and are executed by tasks of the model. A caller
that is cancelled leaves the queue; an execution that it shares goes on.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.modelserver.errors import ErrorKind, InferenceFailed
from kilonova.serving.modelserver.execution.batch import can_join, join_inputs, split_outputs
from kilonova.serving.modelserver.execution.in_flight import InFlight
from kilonova.serving.modelserver.execution.statistics import ExecutionTimes, ModelStatistics
from kilonova.serving.modelserver.models.backend import Backend
from kilonova.serving.modelserver.models.spec import ModelSpec
from kilonova.serving.modelserver.tensors import Tensor

_REASONS = {ErrorKind.RESOURCE_EXHAUSTED: "REJECTED", ErrorKind.INTERNAL: "BACKEND"}
_log = get_logger(__name__)

Tensors = Sequence[Tensor]


@dataclass(eq=False, slots=True)
class _Job:
    """A request: its inputs, when it arrived, and where its outputs go."""

    inputs: Tensors
    size: int
    arrived: int
    queued: float
    """On the clock of the event loop."""
    outputs: "asyncio.Future[Tensors]"
    timer: asyncio.TimerHandle | None = None


class ServedModel:
    """A model that takes requests."""

    def __init__(self, backend: Backend) -> None:
        self.spec: ModelSpec = backend.spec
        self.statistics = ModelStatistics()
        self.in_flight = InFlight()
        self._backend = backend
        self._settings = backend.spec.queue
        self._queue: deque[_Job] = deque()
        self._idle = self._settings.instances
        self._delay_timer: asyncio.TimerHandle | None = None
        self._executions: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    async def infer(self, inputs: Tensors, outputs: Sequence[str] = ()) -> Tensors:
        """The outputs for the inputs: those that are named, or all."""
        arrived = perf_counter_ns()
        with self.in_flight:
            try:
                found = await self._infer(inputs, outputs, arrived)
            except InferenceFailed as error:
                reason = _REASONS.get(error.kind, "OTHER")
                self.statistics.add_failure(reason, perf_counter_ns() - arrived)
                raise
            except asyncio.CancelledError:
                self.statistics.add_failure("CANCELED", perf_counter_ns() - arrived)
                raise
        if not outputs:
            return found
        by_name = {each.name: each for each in found}
        return [by_name[name] for name in outputs]

    async def drain(self) -> None:
        """Wait for the requests in flight, then free the model; no further requests may come."""
        await self.in_flight.wait_until_idle()
        await asyncio.gather(*self._executions)
        self._backend.close()

    async def _infer(self, inputs: Tensors, outputs: Sequence[str], arrived: int) -> Tensors:
        ordered, size = self.spec.check_inputs(inputs)
        if outputs:
            self.spec.check_outputs(outputs)
        may_wait = self._settings.is_dynamic and self._settings.max_delay > 0
        if self._idle and not self._queue and not may_wait:
            self._idle -= 1
            try:
                (found,) = await self._execute([ordered], [size], [arrived])
            finally:
                self._release_instance()
            return found
        return await self._enqueue(ordered, size, arrived)

    async def _enqueue(self, inputs: Tensors, size: int, arrived: int) -> Tensors:
        limit = self._settings.max_size
        if len(self._queue) >= limit:
            raise InferenceFailed(
                ErrorKind.RESOURCE_EXHAUSTED,
                f"the queue of model {self.spec.name!r} is full: {limit} requests wait",
            )
        loop = asyncio.get_running_loop()
        job = _Job(inputs, size, arrived, loop.time(), loop.create_future())
        self._queue.append(job)
        if self._settings.timeout:
            job.timer = loop.call_later(self._settings.timeout, self._expire, job)
        self._dispatch()
        try:
            return await job.outputs
        except asyncio.CancelledError:
            if job in self._queue:
                self._queue.remove(job)
            raise
        finally:
            if job.timer is not None:
                job.timer.cancel()

    def _expire(self, job: _Job) -> None:
        if job in self._queue:
            self._queue.remove(job)
            job.outputs.set_exception(
                InferenceFailed(
                    ErrorKind.UNAVAILABLE,
                    f"not executed within {self._settings.timeout:g} s, "
                    f"the limit of the queue of model {self.spec.name!r}",
                )
            )

    def _release_instance(self) -> None:
        self._idle += 1
        self._dispatch()

    def _dispatch(self, *, is_delay_over: bool = False) -> None:
        """Execute what waits, as far as there are instances; the first batch at once if its delay
        is over."""
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None
        while self._idle and self._queue:
            batch = self._select_batch()
            delay = 0.0 if is_delay_over else self._remaining_delay(batch)
            if delay > 0:
                loop = asyncio.get_running_loop()
                end_delay = partial(self._dispatch, is_delay_over=True)
                self._delay_timer = loop.call_later(delay, end_delay)
                return
            is_delay_over = False
            for _ in batch:
                self._queue.popleft()
            self._idle -= 1
            task = asyncio.create_task(self._execute_batch(batch))
            self._executions.add(task)
            task.add_done_callback(self._executions.discard)

    def _select_batch(self) -> list[_Job]:
        """The first request, and those directly behind it that fit into its batch."""
        first = self._queue[0]
        if not self._settings.is_dynamic:
            return [first]
        limit = self._settings.max_batch_size
        batch: list[_Job] = []
        size = 0
        for job in self._queue:
            size += job.size
            if size > limit or not can_join(first.inputs, job.inputs):
                break
            batch.append(job)
        return batch

    def _remaining_delay(self, batch: list[_Job]) -> float:
        """How long the batch waits for further requests, in seconds."""
        settings = self._settings
        if not settings.max_delay or len(batch) < len(self._queue):
            return 0.0  # the next request does not fit
        size = sum(job.size for job in batch)
        if size >= settings.max_batch_size or size in settings.preferred_batch_sizes:
            return 0.0
        waited = asyncio.get_running_loop().time() - batch[0].queued
        return settings.max_delay - waited

    async def _execute_batch(self, batch: list[_Job]) -> None:
        try:
            found = await self._execute(
                [job.inputs for job in batch],
                [job.size for job in batch],
                [job.arrived for job in batch],
            )
        except InferenceFailed as error:
            for job in batch:
                if not job.outputs.done():
                    job.outputs.set_exception(InferenceFailed(error.kind, str(error)))
        else:
            for job, outputs in zip(batch, found, strict=True):
                if not job.outputs.done():
                    job.outputs.set_result(outputs)
        finally:
            self._release_instance()

    async def _execute(
        self, requests: list[Tensors], sizes: list[int], arrivals: list[int]
    ) -> list[Tensors]:
        started = perf_counter_ns()
        try:
            inputs = join_inputs(requests)
            joined = perf_counter_ns()
            outputs = await self._backend.execute(inputs)
            executed = perf_counter_ns()
            found = split_outputs(outputs, sizes)
        except InferenceFailed:
            raise
        except Exception as error:
            _log.exception("model failed", model=self.spec.name)
            raise InferenceFailed(
                ErrorKind.INTERNAL, f"model {self.spec.name!r} failed: {error}"
            ) from error
        ended = perf_counter_ns()
        times = ExecutionTimes(joined - started, executed - joined, ended - executed)
        statistics = self.statistics
        statistics.add_execution(sum(sizes), times)
        for arrived in arrivals:
            statistics.add_success(started - arrived, times, ended - arrived)
        return found
