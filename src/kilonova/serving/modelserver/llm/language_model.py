"""A language model that takes requests: one task executes steps as long as there are sequences.

A request is an asynchronous generator. When it is closed (its client is gone, or a stop sequence
was found) its sequence is dropped before the next step.
"""

import asyncio
from dataclasses import dataclass, field
from time import perf_counter_ns

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.openai_api.answers import Pieces
from kilonova.openai_api.completions import CompletionFailed, CompletionRequest, InvalidRequest
from kilonova.openai_api.responses import FinishReason, Usage
from kilonova.openai_api.text import find_stop, join_token
from kilonova.serving.modelserver.errors import RETRY_SECONDS
from kilonova.serving.modelserver.execution.in_flight import InFlight
from kilonova.serving.modelserver.execution.statistics import ExecutionTimes, ModelStatistics
from kilonova.serving.modelserver.llm.blocks import KvBlocks
from kilonova.serving.modelserver.llm.executor import StepExecutor
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.llm.sequences import SequenceScheduler, TokenSequence
from kilonova.serving.modelserver.llm.words import decode_token, encode_words
from kilonova.serving.modelserver.models.spec import ModelSpec, QueueSettings

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """The sizes of a language model; the cache and its blocks in tokens."""

    name: str
    slots: int = 16
    """Sequences that run at the same time."""
    queue: int = 256
    """Sequences that wait at most; further ones are refused as exhausted."""
    cache: int = 65536
    block: int = 16
    chunk: int = 2048
    """Tokens that a step computes at most."""
    context: int = 32768
    """Tokens of a prompt and its answer at most."""


@dataclass(eq=False, slots=True)
class _Request:
    """A sequence, and its way from the steps to its generator."""

    sequence: TokenSequence
    arrived: int
    tokens: "asyncio.Queue[int | None]" = field(default_factory=lambda: asyncio.Queue[int | None]())
    """None if the model failed."""
    started: int = 0
    """When it left the queue."""
    latest: int = 0
    """When its latest token was there."""


class LanguageModel:
    """A loaded language model. Build it in the event loop that runs it."""

    def __init__(self, settings: LlmSettings, executor: StepExecutor, metrics: LlmMetrics) -> None:
        self.spec = ModelSpec(
            name=settings.name,
            platform="kilonova",
            backend="llm",
            queue=QueueSettings(max_size=settings.queue, instances=settings.slots),
        )
        self.statistics = ModelStatistics()
        self.in_flight = InFlight()
        self._settings = settings
        self._executor = executor
        self._metrics = metrics
        self._scheduler = SequenceScheduler(
            KvBlocks(settings.cache // settings.block, settings.block),
            settings.slots,
            settings.queue,
            settings.chunk,
        )
        self._requests: dict[TokenSequence, _Request] = {}
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"llm-{settings.name}")
        self._observe_gauges()

    @property
    def pending(self) -> int:
        """Sequences that wait."""
        return len(self._scheduler.waiting)

    def prepare(self, request: CompletionRequest) -> TokenSequence:
        """The sequence of a request; `CompletionFailed` if it is too long."""
        prompt = encode_words(request.prompt) or encode_words("empty")
        total = len(prompt) + request.max_tokens
        limit = min(self._settings.context, self._settings.cache)
        if total > limit:
            raise InvalidRequest(
                f"the prompt has {len(prompt)} tokens, and max_tokens is {request.max_tokens}: "
                f"together they are more than {limit}, the context of {self.spec.name!r}",
                "max_tokens",
                code="context_length_exceeded",
            )
        return TokenSequence(prompt, request.max_tokens, request.seed)

    def count_usage(self, sequence: TokenSequence, completion: int) -> Usage:
        """The usage of a sequence that has ended."""
        return Usage(len(sequence.prompt), completion, sequence.cached)

    async def generate(self, sequence: TokenSequence, stop: tuple[str, ...]) -> Pieces:
        """The text, token by token; `CompletionFailed` if the queue is full."""
        if self._scheduler.is_full:
            self.statistics.add_failure("REJECTED", 0)
            raise CompletionFailed(
                f"the queue of model {self.spec.name!r} is full: "
                f"{len(self._scheduler.waiting)} requests wait",
                429,
                code="queue_full",
                retry_seconds=RETRY_SECONDS,
            )
        request = _Request(sequence, perf_counter_ns())
        finish: FinishReason | None = None
        with self.in_flight:
            self._requests[sequence] = request
            self._scheduler.add(sequence)
            self._wake.set()
            try:
                text, position = "", 0
                while finish is None:
                    token = await self._next_token(request)
                    piece = join_token(decode_token(token), position)
                    position += 1
                    if stop and (end := find_stop(text + piece, stop)) is not None:
                        piece, finish = (text + piece)[len(text) : end], "stop"
                    elif position == sequence.max_tokens:
                        finish = "length"
                    text = text + piece if stop else ""
                    yield piece, finish
            finally:
                del self._requests[sequence]
                sequence.is_cancelled = True
                self._wake.set()
                self._observe_end(request, finish)

    async def drain(self) -> None:
        """Wait for the requests in flight, then free the model."""
        await self.in_flight.wait_until_idle()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._executor.close()
        self._observe_gauges()

    async def _next_token(self, request: _Request) -> int:
        token = await request.tokens.get()
        if token is None:
            raise CompletionFailed(f"model {self.spec.name!r} failed: see the server's log", 500)
        return token

    async def _run(self) -> None:
        scheduler = self._scheduler
        while True:
            step = scheduler.plan_step()
            self._observe_gauges()
            if step is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            now = perf_counter_ns()
            for prefill in step.prefills:
                self._observe_start(prefill.sequence, now)
            try:
                tokens = await self._executor.execute(step)
            except Exception:
                _log.exception("model failed", model=self.spec.name)
                self._fail_all()
                continue
            scheduler.complete_step(step, tokens)
            for sequence, token in zip(step.receivers, tokens, strict=True):
                self._deliver(sequence, token)

    def _deliver(self, sequence: TokenSequence, token: int) -> None:
        if len(sequence.output) >= sequence.max_tokens:
            self._scheduler.finish(sequence)
        request = self._requests.get(sequence)
        if request is None:
            return
        now, name = perf_counter_ns(), self.spec.name
        if request.latest:
            self._metrics.inter_token_latency(name).observe((now - request.latest) / 1e9)
        else:
            self._metrics.time_to_first_token(name).observe((now - request.arrived) / 1e9)
        self._metrics.generation_tokens(name).inc()
        request.latest = now
        request.tokens.put_nowait(token)

    def _fail_all(self) -> None:
        for sequence in list(self._scheduler.running):
            self._scheduler.finish(sequence)
        self._scheduler.waiting.clear()
        for request in self._requests.values():
            request.tokens.put_nowait(None)

    def _observe_start(self, sequence: TokenSequence, now: int) -> None:
        request = self._requests.get(sequence)
        if request is None or request.started:
            return
        request.started = now
        name, metrics = self.spec.name, self._metrics
        metrics.queue_time(name).observe((now - request.arrived) / 1e9)
        metrics.prompt_tokens(name).inc(len(sequence.prompt))
        metrics.prefix_queries(name).inc(len(sequence.prompt))
        metrics.prefix_hits(name).inc(sequence.cached)

    def _observe_end(self, request: _Request, finish: FinishReason | None) -> None:
        now, name, metrics = perf_counter_ns(), self.spec.name, self._metrics
        metrics.successes(name, finish or "abort").inc()
        if finish is None:
            self.statistics.add_failure("CANCELED", now - request.arrived)
            return
        metrics.latency(name).observe((now - request.arrived) / 1e9)
        metrics.inference_time(name).observe((now - request.started) / 1e9)
        times = ExecutionTimes(0, now - request.started, 0)
        self.statistics.add_execution(1, times)
        self.statistics.add_success(request.started - request.arrived, times, now - request.arrived)

    def _observe_gauges(self) -> None:
        name, scheduler = self.spec.name, self._scheduler
        self._metrics.running(name).set(len(scheduler.running))
        self._metrics.waiting(name).set(len(scheduler.waiting))
        blocks = scheduler.blocks
        self._metrics.cache_usage(name).set(blocks.used / blocks.count)
