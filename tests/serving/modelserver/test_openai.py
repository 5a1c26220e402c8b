"""OpenAI's API, through its own client."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Completion

from tests.serving.modelserver.server import ModelServer

STORY = "Tell me a story about a small robot that finds a garden behind the last house of the city"


@pytest.fixture
async def client(model_server: ModelServer) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"{model_server.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


async def test_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert [each.id async for each in client.models.list()] == ["tiny"]
    assert (await client.models.retrieve("tiny")).owned_by == "kilonova"
    with pytest.raises(openai.NotFoundError, match="the language models here are tiny"):
        await client.models.retrieve("add")


async def test_server_without_language_models_says_how_to_get_one(tmp_path: Path) -> None:
    server = ModelServer.start(tmp_path, "--model=add", "--drain-delay=0")
    try:
        url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            with pytest.raises(openai.NotFoundError, match="start it with --llm NAME"):
                await client.completions.create(model="add", prompt="Hello")
    finally:
        server.process.stop()


async def test_completion_has_text_and_usage(client: openai.AsyncOpenAI) -> None:
    found = await client.completions.create(model="tiny", prompt=STORY, max_tokens=5)
    assert len(found.choices[0].text.split()) == 5
    assert found.choices[0].finish_reason == "length"
    assert found.usage is not None
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (19, 5)


async def test_same_prompt_and_seed_have_the_same_text(client: openai.AsyncOpenAI) -> None:
    async def complete(prompt: str, seed: int) -> str:
        found = await client.completions.create(model="tiny", prompt=prompt, seed=seed)
        return found.choices[0].text

    first, again, other_seed, other_prompt = await asyncio.gather(
        complete("one two", 1), complete("one two", 1), complete("one two", 2), complete("one", 1)
    )
    assert first == again
    assert len({first, other_seed, other_prompt}) == 3


async def test_chat_is_streamed_as_it_is_answered_whole(client: openai.AsyncOpenAI) -> None:
    request: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": STORY}],
        "max_tokens": 9,
    }
    whole = await client.chat.completions.create(**request)
    stream = await client.chat.completions.create(
        **request, stream=True, stream_options={"include_usage": True}
    )
    chunks = [each async for each in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(each.choices[0].delta.content or "" for each in chunks[:-1])
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 9


async def test_stop_sequence_ends_the_text(client: openai.AsyncOpenAI) -> None:
    whole = (await client.completions.create(model="tiny", prompt="stop")).choices[0].text
    word = whole.split()[3]
    found = await client.completions.create(model="tiny", prompt="stop", stop=word)
    assert found.choices[0].text == whole[: whole.index(word)]
    assert found.choices[0].finish_reason == "stop"


async def test_prefix_is_computed_once(client: openai.AsyncOpenAI) -> None:
    """A prompt of 3,000 tokens takes 0.3 s; when all but its last block is cached, no time."""
    prompt = " ".join(f"word-{number}" for number in range(3000))
    begin = time.monotonic()
    await client.completions.create(model="tiny", prompt=prompt, max_tokens=1)
    first = time.monotonic() - begin
    begin = time.monotonic()
    found = await client.completions.create(model="tiny", prompt=prompt + " more", max_tokens=1)
    second = time.monotonic() - begin
    assert found.usage is not None
    assert found.usage.prompt_tokens_details is not None
    assert found.usage.prompt_tokens_details.cached_tokens == 2992
    assert first >= 0.3
    assert second < first


async def test_full_queue_is_a_rate_limit(model_server: ModelServer) -> None:
    """Four slots, and room for two that wait."""
    url = f"{model_server.url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        found = await asyncio.gather(
            *(
                client.completions.create(model="tiny", prompt=f"request {each}", max_tokens=200)
                for each in range(12)
            ),
            return_exceptions=True,
        )
    refused = [each for each in found if isinstance(each, openai.RateLimitError)]
    assert len(refused) == 6
    assert {each.code for each in refused} == {"queue_full"}
    assert {each.response.headers["retry-after"] for each in refused} == {"1"}
    assert sum(isinstance(each, Completion) for each in found) == 6


async def test_client_that_leaves_frees_its_slot(
    client: openai.AsyncOpenAI, model_server: ModelServer
) -> None:
    stream = await client.completions.create(
        model="tiny", prompt="long", max_tokens=4000, stream=True
    )
    await anext(aiter(stream))
    running = 'vllm:num_requests_running{model_name="tiny"}'
    assert model_server.read_metrics()[running] == 1
    await stream.close()
    while model_server.read_metrics()[running]:
        await asyncio.sleep(0.01)


async def test_client_that_gives_up_frees_its_slot(
    client: openai.AsyncOpenAI, model_server: ModelServer
) -> None:
    running = 'vllm:num_requests_running{model_name="tiny"}'
    with pytest.raises(openai.APITimeoutError):
        await client.completions.create(model="tiny", prompt="a", max_tokens=4000, timeout=0.2)
    while model_server.read_metrics()[running]:
        await asyncio.sleep(0.01)
    aborted = 'vllm:request_success_total{finished_reason="abort",model_name="tiny"}'
    assert model_server.read_metrics()[aborted] >= 1


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"model": "none"}, 404, "the model 'none' does not exist: the language models"),
        ({"model": "add"}, 404, "the model 'add' does not exist"),
        ({"max_tokens": 0}, 400, "max_tokens is 0: use 1 to"),
        ({"max_tokens": 4096}, 400, "together they are more than 4096, the context of 'tiny'"),
        ({"n": 2}, 400, "n is 2: use 1"),
        ({"prompt": ["a", "b"]}, 400, "send one prompt at a time"),
    ],
)
async def test_wrong_request_is_an_error_of_openai(
    client: openai.AsyncOpenAI, fields: dict[str, Any], status: int, message: str
) -> None:
    request: dict[str, Any] = {"model": "tiny", "prompt": "a", **fields}
    with pytest.raises(openai.APIStatusError, match=message) as caught:
        await client.completions.create(**request)
    assert caught.value.status_code == status


async def test_metrics_have_the_names_of_vllm(
    client: openai.AsyncOpenAI, model_server: ModelServer
) -> None:
    before = model_server.read_metrics()
    await client.completions.create(model="tiny", prompt="a b c", max_tokens=4)
    after = model_server.read_metrics()

    def grown(name: str, labels: str = 'model_name="tiny"') -> float:
        key = f"vllm:{name}{{{labels}}}"
        return after[key] - before.get(key, 0)

    assert grown("prompt_tokens_total") == 3
    assert grown("generation_tokens_total") == 4
    assert grown("time_to_first_token_seconds_count") == 1
    assert grown("inter_token_latency_seconds_count") == 3
    assert grown("request_success_total", 'finished_reason="length",model_name="tiny"') == 1
    assert after['vllm:num_requests_waiting{model_name="tiny"}'] == 0
