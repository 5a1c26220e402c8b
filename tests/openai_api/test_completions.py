"""Requests of OpenAI's API."""

import json
from typing import Any

import pytest

from kilonova.openai_api.completions import InvalidRequest, parse_chat, parse_completion
from kilonova.openai_api.text import find_stop


def encode(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


def test_request_has_defaults() -> None:
    found = parse_completion(encode(prompt="a"))
    assert (found.kind, found.model, found.prompt) == ("text_completion", "m", "a")
    assert (found.max_tokens, found.seed, found.stop) == (64, 0, ())
    assert not found.is_stream


def test_messages_become_one_prompt() -> None:
    parts = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": parts}]
    assert parse_chat(encode(messages=messages)).prompt == "system: a\nuser: bc\nassistant:"


def test_limit_of_a_chat_has_two_names() -> None:
    messages = [{"role": "user", "content": "a"}]
    assert parse_chat(encode(messages=messages, max_completion_tokens=7)).max_tokens == 7
    assert parse_chat(encode(messages=messages, max_tokens=8)).max_tokens == 8


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b"{", "the body is not JSON", ""),
        (b"[" * 100_000, "the body is not JSON", ""),
        (encode(), "prompt", "prompt"),
        (encode(prompt="a", seed="x"), "seed: 'x' is invalid", "seed"),
        (encode(prompt="a", n=2), "n is 2: use 1", "n"),
        (encode(prompt="a", max_tokens=11), "max_tokens is 11: use 1 to 10", "max_tokens"),
        (encode(prompt=["a", "b"]), "send one prompt at a time", "prompt"),
    ],
)
def test_mistake_is_named(body: bytes, message: str, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_completion(body, max_tokens=10)
    assert message in str(caught.value)
    assert caught.value.build_body()["error"]["param"] == (param or None)
    assert caught.value.status == 400


def test_text_ends_before_the_first_stop_sequence() -> None:
    assert find_stop("one two three", ["three", "two"]) == 4
    assert find_stop("one", ["two"]) is None
