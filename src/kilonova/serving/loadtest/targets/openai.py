"""The OpenAI API: chat completions and completions, with and without streaming."""

import random
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import msgspec

from kilonova.component.failure import CommandFailed
from kilonova.serving.loadtest.outcome import Outcome, RequestSize, TargetDescription
from kilonova.serving.loadtest.targets.connections import (
    HttpAnswer,
    HttpConnections,
    RequestFailed,
    build_request,
)
from kilonova.serving.loadtest.targets.http import build_failure, read_message
from kilonova.serving.loadtest.targets.options import TargetOptions
from kilonova.serving.loadtest.targets.v2_http import choose_model

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_WORDS = (
    *("the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "as", "with", "by"),
    *("at", "from", "this", "be", "are", "or", "an", "one", "had", "not", "but", "what", "all"),
    *("were", "when", "we", "there", "can", "more", "if", "out", "so", "up", "said", "about"),
)


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    text: str | None = None


class _Event(msgspec.Struct, frozen=True):
    """An event of a stream, or a whole answer."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None

    @property
    def has_text(self) -> bool:
        return any(
            each.text or (each.delta and (each.delta.content or each.delta.reasoning_content))
            for each in self.choices
        )


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: list[_Model]


class OpenAiTarget:
    """Completes prompts by one model. Each generated prompt is another one, so that no cache of
    prefixes answers for the model."""

    def __init__(
        self,
        connections: HttpConnections,
        options: TargetOptions,
        headers: Mapping[str, str],
        model: str,
        clock: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._headers = headers
        self._model = model
        self._clock = clock
        self._options = options.completion
        self._bodies = cycle(options.bodies) if options.bodies else None
        self._randomness = random.Random(options.seed)  # noqa: S311 - repeatable, no secret
        self._path = connections.address.path or CHAT

    @property
    def description(self) -> TargetDescription:
        return TargetDescription(str(self._connections.address), "openai", self._model)

    async def send(self, size: RequestSize | None = None) -> Outcome:
        body = self._build_body(size or RequestSize())
        request = build_request(
            self._connections.address,
            "POST",
            self._path,
            msgspec.json.encode(body),
            self._headers,
        )
        stream = _CompletionStream(self._clock) if body.get("stream") else None
        try:
            answer = await self._connections.send(request, stream.feed if stream else None)
        except RequestFailed as failure:
            return build_failure(failure)
        if answer.status >= 400:
            return Outcome(str(answer.status), False, read_message(answer))
        return stream.build_outcome() if stream else _read_answer(answer)

    async def close(self) -> None:
        self._connections.close()

    def _build_body(self, size: RequestSize) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model}
        if self._bodies is not None:
            body |= next(self._bodies)
        else:
            prompt = self._build_prompt(size.prompt_tokens or self._options.prompt_tokens)
            is_chat = self._path.partition("?")[0].endswith("/chat/completions")
            message = [{"role": "user", "content": prompt}]
            body |= {"messages": message} if is_chat else {"prompt": prompt}
            body["max_tokens"] = size.completion_tokens or self._options.max_tokens
        body.setdefault("stream", self._options.is_stream)
        if body["stream"]:
            body.setdefault("stream_options", {"include_usage": True})
        return body

    def _build_prompt(self, tokens: int) -> str:
        return " ".join(self._randomness.choices(_WORDS, k=tokens))

    @classmethod
    async def find_model(cls, connections: HttpConnections, headers: Mapping[str, str]) -> str:
        """The only model of the server."""
        address = connections.address
        request = build_request(address, "GET", "/v1/models", headers=headers)
        try:
            answer = await connections.send(request)
        except RequestFailed as failure:
            raise CommandFailed(f"the models cannot be read: {failure}") from failure
        try:
            found = msgspec.json.decode(answer.body, type=_Models)
        except msgspec.DecodeError:
            message = f"{answer.status} {read_message(answer)}".rstrip()
            raise CommandFailed(
                f"the models of {address} cannot be read: {message}; name one by --model"
            ) from None
        return choose_model([each.id for each in found.data])


class _CompletionStream:
    """Reads server-sent events, and when each came."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rest = b""
        self._first: float | None = None
        self._last = 0.0
        self._gaps: list[float] = []
        self._usage: _Usage | None = None
        self._problem = ""
        self._is_done = False

    def feed(self, chunk: bytes) -> None:
        now = self._clock()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line[5:].strip(), now)

    def build_outcome(self) -> Outcome:
        tokens = len(self._gaps) + (self._first is not None)
        problem = self._problem
        if not problem and not self._is_done:
            problem = "the stream ended without [DONE]"
        usage = self._usage or _Usage(0, tokens)
        return Outcome(
            status="200, broken stream" if problem else "200",
            is_ok=not problem,
            message=problem,
            first_token_at=self._first,
            token_gaps=tuple(self._gaps),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )

    def _take(self, data: bytes, now: float) -> None:
        if data == b"[DONE]":
            self._is_done = True
            return
        try:
            event = msgspec.json.decode(data, type=_Event)
        except msgspec.DecodeError as error:
            self._problem = f"an event is invalid: {error}"
            return
        if event.error is not None:
            self._problem = msgspec.json.encode(event.error).decode()
        self._usage = event.usage or self._usage
        if event.has_text:
            if self._first is None:
                self._first = now
            else:
                self._gaps.append(now - self._last)
            self._last = now


def _read_answer(answer: HttpAnswer) -> Outcome:
    try:
        event = msgspec.json.decode(answer.body, type=_Event)
    except msgspec.DecodeError as error:
        return Outcome(f"{answer.status}, invalid", False, str(error))
    usage = event.usage or _Usage()
    return Outcome(
        str(answer.status),
        True,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )
