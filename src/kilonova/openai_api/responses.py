"""The bodies of answers, of events of streams, and of errors. Pure."""

from typing import Any, Literal, NamedTuple

import msgspec

from kilonova.kube.client.transport import Reply

FinishReason = Literal["stop", "length"]
_ERROR_TYPES = {429: "rate_limit_error", 503: "service_unavailable"}


class Usage(NamedTuple):
    """Counts of tokens."""

    prompt: int
    completion: int
    cached: int | None = None
    """The tokens of the prompt that were in the cache; None for a server without one."""

    def encode(self) -> dict[str, Any]:
        counts: dict[str, Any] = {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        }
        if self.cached is not None:
            counts["prompt_tokens_details"] = {"cached_tokens": self.cached}
        return counts


class Head(NamedTuple):
    """What the body of an answer begins with, and each event of a stream."""

    id: str
    is_chat: bool
    created: int
    model: str

    def encode(self, *, is_chunk: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self.is_chat:
            kind = "chat.completion.chunk" if is_chunk else "chat.completion"
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def build_response(head: Head, text: str, finish: FinishReason, usage: Usage) -> dict[str, Any]:
    """The response that is not streamed."""
    if head.is_chat:
        content: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
    else:
        content = {"text": text}
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
    return {**head.encode(is_chunk=False), "choices": [choice], "usage": usage.encode()}


def build_chunk(
    head: Head, text: str | None, finish: FinishReason | None, usage: Usage | None = None
) -> bytes:
    """An event of a streamed response. The first of a chat has the role (`text` is empty), one with
    usage has no choice."""
    if head.is_chat:
        delta = {"role": "assistant", "content": ""} if text == "" else {"content": text}
        content: dict[str, Any] = {"delta": {} if text is None else delta}
    else:
        content = {"text": text or ""}
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
    body = head.encode(is_chunk=True)
    body["choices"] = [] if usage else [choice]
    if usage:
        body["usage"] = usage.encode()
    return encode_event(body)


def build_model_list(models: list[str], created: int) -> dict[str, Any]:
    """The models of a server."""
    data = [
        {"id": each, "object": "model", "created": created, "owned_by": "kilonova"}
        for each in models
    ]
    return {"object": "list", "data": data}


def encode_event(body: object) -> bytes:
    """A server-sent event."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def build_error(
    message: str, status: int, param: str = "", code: str = "", **fields: object
) -> dict[str, Any]:
    """An error, as OpenAI's clients read it."""
    default = "server_error" if status >= 500 else "invalid_request_error"
    error = {
        "message": message,
        "type": _ERROR_TYPES.get(status, default),
        "param": param or None,
        "code": code or None,
    }
    return {"error": {**error, **fields}}


def error_reply(status: int, message: str) -> Reply:
    """An error of the server itself."""
    body = msgspec.json.encode(build_error(message, status))
    return Reply(status, body, {"content-type": "application/json"})
