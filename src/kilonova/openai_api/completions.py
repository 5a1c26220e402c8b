"""Requests of OpenAI's completions, as far as servers of ours have them. Pure.

Parameters of sampling other than `seed` (`temperature` …) are accepted and have no effect.
"""

from typing import Any, Literal, TypeVar

import msgspec

from kilonova.openai_api.responses import build_error
from kilonova.yaml_files import describe_mismatch

MAX_TOKENS = 4096
_DEFAULT_TOKENS = 64

Kind = Literal["text_completion", "chat.completion"]
T = TypeVar("T")


class CompletionFailed(Exception):
    """A request that is not answered: a message, a status, and what OpenAI's clients read."""

    def __init__(
        self,
        message: str,
        status: int,
        *,
        param: str = "",
        code: str = "",
        retry_seconds: int = 0,
        **fields: object,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_seconds = retry_seconds
        """When to try again; 0 for no hint."""
        self._fields = fields

    def build_body(self) -> dict[str, Any]:
        """The body of the answer."""
        return build_error(str(self), self.status, self.param, self.code, **self._fields)


class InvalidRequest(CompletionFailed):
    """A request with a mistake, in the field `param`."""

    def __init__(self, message: str, param: str = "", status: int = 400, code: str = "") -> None:
        super().__init__(message, status, param=param, code=code)


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
    seed: int | None = None


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


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, by either of the two requests."""

    kind: Kind
    model: str
    prompt: str
    max_tokens: int
    stop: tuple[str, ...]
    seed: int
    is_stream: bool
    with_usage: bool


def parse_completion(body: bytes, max_tokens: int = MAX_TOKENS) -> CompletionRequest:
    """A request of `/v1/completions`."""
    found = _decode(body, _TextRequest)
    prompt = found.prompt
    if isinstance(prompt, list):
        if len(prompt) != 1:
            raise InvalidRequest("send one prompt at a time", "prompt")
        prompt = prompt[0]
    return _build("text_completion", prompt, found, max_tokens)


def parse_chat(body: bytes, max_tokens: int = MAX_TOKENS) -> CompletionRequest:
    """A request of `/v1/chat/completions`: messages become one prompt."""
    found = _decode(body, _ChatRequest)
    if not found.messages:
        raise InvalidRequest("there are no messages: send at least one", "messages")
    lines = [f"{each.role}: {_read_text(each)}" for each in found.messages]
    return _build("chat.completion", "\n".join([*lines, "assistant:"]), found, max_tokens)


def _decode(body: bytes, type_: type[T]) -> T:
    try:
        source = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("the body is not JSON") from None
    try:
        return msgspec.convert(source, type_)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, type_, error)
        raise InvalidRequest(str(found), found.field) from None


def _build(kind: Kind, prompt: str, found: _Request, max_tokens: int) -> CompletionRequest:
    if found.n not in (None, 1):
        raise InvalidRequest(f"n is {found.n}: use 1, answers are deterministic", "n")
    limit = found.max_completion_tokens or found.max_tokens
    limit = _DEFAULT_TOKENS if limit is None else limit
    if not 1 <= limit <= max_tokens:
        raise InvalidRequest(f"max_tokens is {limit}: use 1 to {max_tokens}", "max_tokens")
    stop = (found.stop,) if isinstance(found.stop, str) else tuple(found.stop or ())
    options = found.stream_options or _StreamOptions()
    return CompletionRequest(
        kind=kind,
        model=found.model,
        prompt=prompt,
        max_tokens=limit,
        stop=tuple(filter(None, stop)),
        seed=found.seed or 0,
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
