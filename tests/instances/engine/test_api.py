"""OpenAI's requests and responses, on agents that answer at once."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.instances.engine.api import ConductorApi
from kilonova.instances.engine.conductor import AgentsMissing, Conductor
from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.settings import ConductorSettings
from kilonova.instances.engine.tokens import (
    advance_context,
    choose_token,
    compute_shard,
    start_context,
)
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.observability.metrics import Metrics
from kilonova.openai_api.text import VOCABULARY

SETTINGS = ConductorSettings(model="tiny", agents=2)
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
TEXT = {"model": "tiny", "prompt": "hello"}


class LocalAgents(Conductor):
    """All agents in this process; they are lost after some tokens."""

    def __init__(self, tokens: int | None = None) -> None:
        super().__init__(SETTINGS, EngineMetrics(Metrics()))
        self._left = tokens

    def require_all(self) -> None:
        if self._left == 0:
            raise AgentsMissing((1,), SETTINGS.agents)

    async def compute_shards(self, context: str) -> list[int]:
        self.require_all()
        self._left = None if self._left is None else self._left - 1
        return [
            compute_shard(SETTINGS.model, index, SETTINGS.agents, context)
            for index in range(SETTINGS.agents)
        ]


async def post(body: object, path: str = "", tokens: int | None = None) -> Reply | StreamReply:
    """Send a request; without a path, it is one for the kind of the body."""
    api = ConductorApi(SETTINGS, LocalAgents(tokens), EngineMetrics(Metrics()), now=lambda: 7.0)
    if not path:
        is_chat = isinstance(body, dict) and "messages" in body
        path = "/v1/chat/completions" if is_chat else "/v1/completions"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await api.routes()[path](Request("POST", path, body=content))


async def answer(body: object, tokens: int | None = None) -> tuple[int, dict[str, Any]]:
    reply = await post(body, tokens=tokens)
    assert isinstance(reply, Reply)
    return reply.status, json.loads(reply.body)


async def read_events(body: object, tokens: int | None = None) -> list[str]:
    reply = await post(body, tokens=tokens)
    assert isinstance(reply, StreamReply)
    content = b"".join([chunk async for chunk in reply.chunks]).decode()
    return [each.removeprefix("data: ") for each in content.split("\n\n") if each]


async def test_completion_has_the_form_of_openai() -> None:
    status, body = await answer(TEXT | {"max_tokens": 3, "temperature": 0.7, "seed": 1})
    assert status == 200
    choice = body["choices"][0]
    assert (body["object"], body["created"], body["model"]) == ("text_completion", 7, "tiny")
    assert len(choice["text"].split()) == 3
    assert choice["finish_reason"] == "length"
    assert body["usage"] == {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}


async def test_parts_of_a_message_are_one_text() -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    split = {"model": "tiny", "messages": [{"role": "user", "content": parts}]}
    assert (await answer(split))[1]["choices"] == (await answer(CHAT))[1]["choices"]


async def test_role_of_a_message_matters() -> None:
    other = {"model": "tiny", "messages": [{"role": "system", "content": "hello"}]}
    assert (await answer(other))[1]["choices"] != (await answer(CHAT))[1]["choices"]


async def test_text_ends_before_a_stop_sequence() -> None:
    whole = (await answer(TEXT | {"max_tokens": 10}))[1]["choices"][0]["text"]
    words = whole.split()
    stopped = (await answer(TEXT | {"max_tokens": 10, "stop": [words[3]]}))[1]["choices"][0]
    assert whole.startswith(stopped["text"])
    assert words[3] not in stopped["text"]
    assert stopped["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("body", "status", "message", "param"),
    [
        (b"{", 400, "the body is not JSON", None),
        ({"prompt": "x"}, 400, "model: is missing: it is required", "model"),
        ({"model": "tiny"}, 400, "prompt: is missing: it is required", "prompt"),
        ({"model": "gpt", "prompt": "x"}, 404, "the model 'gpt' does not exist", "model"),
        (TEXT | {"max_tokens": 0}, 400, "max_tokens is 0: use 1 to 4096", "max_tokens"),
        (TEXT | {"max_tokens": "5"}, 400, "max_tokens: '5' is invalid", "max_tokens"),
        (TEXT | {"n": 2}, 400, "n is 2: use 1", "n"),
        (TEXT | {"prompt": ["a", "b"]}, 400, "send one prompt at a time", "prompt"),
        (CHAT | {"messages": []}, 400, "there are no messages", "messages"),
        (
            CHAT | {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "a part is of type 'image_url': send text",
            "messages",
        ),
    ],
)
async def test_invalid_request_is_explained(
    body: object, status: int, message: str, param: str | None
) -> None:
    found, content = await answer(body)
    assert found == status
    assert message in content["error"]["message"]
    assert content["error"]["param"] == param
    assert content["error"]["type"] == "invalid_request_error"


async def test_other_method_is_not_allowed() -> None:
    api = ConductorApi(SETTINGS, LocalAgents(), EngineMetrics(Metrics()))
    reply = await api.routes()["/v1/completions"](Request("GET", "/v1/completions"))
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


async def test_missing_agents_are_a_status_before_the_first_token() -> None:
    for body in (TEXT, TEXT | {"stream": True}):
        status, content = await answer(body, tokens=0)
        assert (status, content["error"]["code"]) == (503, "agents_missing")
        assert content["error"]["missing_agents"] == [1]


async def test_agents_lost_later_end_the_stream_with_an_error() -> None:
    *events, last = await read_events(TEXT | {"stream": True, "max_tokens": 9}, tokens=3)
    assert len(events) == 3
    assert json.loads(last)["error"]["missing_agents"] == [1]


async def test_agents_lost_later_fail_what_is_not_streamed() -> None:
    assert (await answer(TEXT | {"max_tokens": 9}, tokens=3))[0] == 503


@given(st.text(max_size=30), st.sampled_from([TEXT, CHAT]), st.integers(1, 40))
async def test_streamed_text_is_the_whole_text(
    prompt: str, body: dict[str, Any], limit: int
) -> None:
    body = dict(body, max_tokens=limit)
    if "prompt" in body:
        body["prompt"] = prompt
    status, whole = await answer(body)
    assert status == 200
    choice = whole["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    *events, last = await read_events(body | {"stream": True})
    assert last == "[DONE]"
    assert "".join(map(read_piece, events)) == text
    assert json.loads(events[-1])["choices"][0]["finish_reason"] == choice["finish_reason"]


def read_piece(event: str) -> str:
    choice = json.loads(event)["choices"][0]
    return choice["delta"].get("content", "") if "delta" in choice else choice["text"]


def compute_all(agents: int, context: str) -> Sequence[int]:
    return [compute_shard("tiny", index, agents, context) for index in range(agents)]


@given(st.text(max_size=20), st.integers(1, 9), st.data())
def test_text_depends_on_every_agent(prompt: str, agents: int, data: st.DataObject) -> None:
    context = start_context("tiny", prompt)
    shards = compute_all(agents, context)
    lost = data.draw(st.integers(0, agents - 1))
    assert choose_token(shards, 0) in VOCABULARY[1:]
    # Another value of any one shard leads to another word, unless they are equal by chance.
    words = len(VOCABULARY) - 1
    changed = [value + (index == lost) for index, value in enumerate(shards)]
    assert (choose_token(changed, 0) == choose_token(shards, 0)) == (words == 1)


@given(st.text(max_size=20), st.text(max_size=20))
def test_contexts_of_different_texts_differ(one: str, other: str) -> None:
    assert (start_context("m", one) == start_context("m", other)) == (one == other)
    assert (advance_context("c", one) == advance_context("c", other)) == (one == other)
