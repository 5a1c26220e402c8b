"""Requests and responses of OpenAI's completions, as far as the engine has them. Pure.

Answers are deterministic: what influences sampling (`temperature`, `seed` …) is accepted and has no
effect.
"""

from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from kilonova.kube.client.transport import Reply, Request
from kilonova.yaml_files import describe_mismatch

MAX_TOKENS = 4096
_DEFAULT_TOKENS = 64

Kind = Literal["text_completion", "chat.completion"]
FinishReason = Literal["stop", "length"]
T = TypeVar("T")


class InvalidRequest(Exception):
    """A request that cannot be answered: a status, a message, the field and a code."""

    def __init__(self, message: str, param: str = "", status: int = 400, code: str = "") -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = None
    n: int | None = 1


class _TextRequest(_Request, frozen=True, kw_only=True):
    prompt: str | list[str]


class _Part(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class _ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None


class _ChatRequest(_Request, frozen=True, kw_only=True):
    messages: list[_ChatMessage]


class Usage(NamedTuple):
    """Counts of tokens."""

    prompt: int
    completion: int

    def encode(self) -> dict[str, int]:
        total = self.prompt + self.completion
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": total,
        }


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, by either of the two requests."""

    kind: Kind
    prompt: str
    max_tokens: int
    stop: tuple[str, ...]
    is_stream: bool
    with_usage: bool


def parse_completion(request: Request, model: str) -> CompletionRequest:
    """A request of `/v1/completions`."""
    found = _decode(request.body, _TextRequest)
    prompt = found.prompt
    if isinstance(prompt, list):
        if len(prompt) != 1:
            raise InvalidRequest("send one prompt at a time", "prompt")
        prompt = prompt[0]
    return _build("text_completion", prompt, found, model)


def parse_chat(request: Request, model: str) -> CompletionRequest:
    """A request of `/v1/chat/completions`: messages become one prompt."""
    found = _decode(request.body, _ChatRequest)
    if not found.messages:
        raise InvalidRequest("there are no messages: send at least one", "messages")
    lines = [f"{each.role}: {_read_text(each)}" for each in found.messages]
    return _build("chat.completion", "\n".join([*lines, "assistant:"]), found, model)


def build_response(
    request: CompletionRequest,
    model: str,
    id: str,
    created: int,
    text: str,
    finish: FinishReason,
    usage: Usage,
) -> dict[str, Any]:
    """The response that is not streamed."""
    if request.kind == "chat.completion":
        content: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
    else:
        content = {"text": text}
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
    head = {"id": id, "object": request.kind, "created": created, "model": model}
    return {**head, "choices": [choice], "usage": usage.encode()}


def build_chunk(
    request: CompletionRequest,
    model: str,
    id: str,
    created: int,
    text: str | None,
    finish: FinishReason | None,
    usage: Usage | None = None,
) -> bytes:
    """An event of a streamed response. The first of a chat has the role (`text` is empty), one with
    usage has no choice."""
    is_chat = request.kind == "chat.completion"
    kind = "chat.completion.chunk" if is_chat else request.kind
    if is_chat:
        delta = {"role": "assistant", "content": ""} if text == "" else {"content": text}
        content: dict[str, Any] = {"delta": {} if text is None else delta}
    else:
        content = {"text": text or ""}
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish}
    body: dict[str, Any] = {"id": id, "object": kind, "created": created, "model": model}
    body["choices"] = [] if usage else [choice]
    if usage:
        body["usage"] = usage.encode()
    return encode_event(body)


def encode_event(body: object) -> bytes:
    """A server-sent event."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def build_error(
    message: str, status: int, param: str = "", code: str = "", **fields: object
) -> dict[str, Any]:
    """An error, as OpenAI's clients read it."""
    kinds = {400: "invalid_request_error", 404: "invalid_request_error", 503: "service_unavailable"}
    error = {
        "message": message,
        "type": kinds.get(status, "server_error" if status >= 500 else "invalid_request_error"),
        "param": param or None,
        "code": code or None,
    }
    return {"error": {**error, **fields}}


def error_reply(status: int, message: str) -> Reply:
    """An error of the server itself."""
    body = msgspec.json.encode(build_error(message, status))
    return Reply(status, body, {"content-type": "application/json"})


def _decode(body: bytes, type_: type[T]) -> T:
    try:
        source = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRequest("the body is not JSON") from None
    try:
        return msgspec.convert(source, type_)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, type_, error)
        raise InvalidRequest(str(found), found.field) from None


def _build(kind: Kind, prompt: str, found: _Request, model: str) -> CompletionRequest:
    if found.model != model:
        message = f"the model {found.model!r} does not exist: this engine has {model!r}"
        raise InvalidRequest(message, "model", 404, "model_not_found")
    if found.n not in (None, 1):
        raise InvalidRequest(f"n is {found.n}: use 1, answers are deterministic", "n")
    limit = found.max_completion_tokens or found.max_tokens
    limit = _DEFAULT_TOKENS if limit is None else limit
    if not 1 <= limit <= MAX_TOKENS:
        raise InvalidRequest(f"max_tokens is {limit}: use 1 to {MAX_TOKENS}", "max_tokens")
    stop = (found.stop,) if isinstance(found.stop, str) else tuple(found.stop or ())
    options = found.stream_options or _StreamOptions()
    return CompletionRequest(
        kind=kind,
        prompt=prompt,
        max_tokens=limit,
        stop=tuple(filter(None, stop)),
        is_stream=found.stream,
        with_usage=options.include_usage,
    )


def _read_text(message: _ChatMessage) -> str:
    if isinstance(message.content, list):
        for part in message.content:
            if part.type != "text":
                raise InvalidRequest(f"a part is of type {part.type!r}: send text", "messages")
        return "".join(part.text for part in message.content)
    return message.content or ""
