"""A language model takes the time that it says, in virtual time."""

import asyncio
from collections.abc import Sequence

import pytest

from kilonova.kube.observability.metrics import Metrics
from kilonova.openai_api.completions import CompletionFailed
from kilonova.serving.modelserver.llm.executor import StepTimes, TimedExecutor
from kilonova.serving.modelserver.llm.language_model import LanguageModel, LlmSettings
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.llm.sequences import Step, TokenSequence
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

TIMES = StepTimes(prefill=0.01, decode=0.1, decode_sequence=0.0)


def build(*, slots: int = 4, queue: int = 4, chunk: int = 1000) -> LanguageModel:
    settings = LlmSettings(name="tiny", slots=slots, queue=queue, chunk=chunk)
    return LanguageModel(settings, TimedExecutor("tiny", TIMES), LlmMetrics(Metrics()))


def sequence(tokens: int, max_tokens: int, first: int = 0) -> TokenSequence:
    return TokenSequence(list(range(first, first + tokens)), max_tokens, seed=0)


async def time_tokens(model: LanguageModel, request: TokenSequence) -> list[float]:
    """When each token was there."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    return [round(loop.time() - begin, 3) async for _ in model.generate(request, ())]


async def test_first_token_takes_the_prompt_and_each_further_one_a_step() -> None:
    model = build()
    assert await time_tokens(model, sequence(100, 4)) == [1.0, 1.1, 1.2, 1.3]
    assert await time_tokens(model, sequence(100, 2, first=500)) == [1.0, 1.1]


async def test_sequences_share_the_steps() -> None:
    model = build()
    found = await asyncio.gather(
        *(time_tokens(model, sequence(10, 3, first=100 * each)) for each in range(4))
    )
    assert found == [[0.4, 0.5, 0.6]] * 4


async def test_long_prompt_delays_others_by_a_piece_at_a_time() -> None:
    model = build(chunk=11)
    first = asyncio.create_task(time_tokens(model, sequence(10, 8)))
    await asyncio.sleep(0.15)
    second = asyncio.create_task(time_tokens(model, sequence(30, 1, first=500)))
    # Steps of 0.1 s and of ten tokens of the other prompt.
    assert await first == [0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1]
    assert await second == [0.65]


async def test_computed_prefix_takes_no_time() -> None:
    model = build()
    await time_tokens(model, sequence(100, 1))
    assert await time_tokens(model, sequence(100, 1)) == [0.04]  # the last of 16 tokens, and 4


async def test_request_waits_for_a_slot_and_is_refused_beyond_the_queue() -> None:
    model = build(slots=1, queue=1)
    first, second = (
        asyncio.create_task(time_tokens(model, sequence(10, 2, first=100 * each)))
        for each in range(2)
    )
    await asyncio.sleep(0.05)
    with pytest.raises(CompletionFailed, match="the queue of model 'tiny' is full") as caught:
        await time_tokens(model, sequence(10, 2))
    assert caught.value.status == 429
    assert (await first, await second) == ([0.1, 0.2], [0.3, 0.4])


async def test_closed_request_gives_its_slot_to_the_next() -> None:
    model = build(slots=1)
    request = model.generate(sequence(10, 1000), ())
    await anext(request)
    second = asyncio.create_task(time_tokens(model, sequence(10, 1, first=100)))
    await asyncio.sleep(0.01)
    await request.aclose()
    assert await second == [0.2]  # the step that was computed, and its own prompt
    assert model.in_flight.count == 0


class BrokenExecutor:
    """Fails once."""

    def __init__(self) -> None:
        self.calls = 0

    async def execute(self, step: Step) -> Sequence[int]:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("no memory")
        return await TimedExecutor("tiny", TIMES).execute(step)

    def close(self) -> None:
        """Nothing is held."""


async def test_failed_step_fails_its_requests_and_no_later_ones() -> None:
    settings = LlmSettings(name="tiny")
    model = LanguageModel(settings, BrokenExecutor(), LlmMetrics(Metrics()))
    with pytest.raises(CompletionFailed, match="model 'tiny' failed"):
        await time_tokens(model, sequence(10, 1))
    assert len(await time_tokens(model, sequence(10, 1))) == 1


async def test_drain_waits_for_the_answers() -> None:
    model = build()
    running = asyncio.create_task(time_tokens(model, sequence(10, 5)))
    await asyncio.sleep(0.05)
    await model.drain()
    assert await running == [0.1, 0.2, 0.3, 0.4, 0.5]
