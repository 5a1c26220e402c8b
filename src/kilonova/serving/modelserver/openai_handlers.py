"""OpenAI's API over the language models of a server."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

import msgspec

from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.serving.routing import RequestHandler, json_reply, require_method
from kilonova.openai_api.answers import answer_completion, failure_reply
from kilonova.openai_api.completions import (
    CompletionFailed,
    CompletionRequest,
    InvalidRequest,
    parse_chat,
    parse_completion,
)
from kilonova.openai_api.responses import build_model_list, error_reply
from kilonova.serving.modelserver.errors import RETRY_SECONDS, ErrorKind, InferenceFailed
from kilonova.serving.modelserver.execution import InFlight
from kilonova.serving.modelserver.llm.language_model import LanguageModel
from kilonova.serving.modelserver.registry import ModelRegistry
from kilonova.serving.modelserver.tracing import NO_TRACING, RequestTracing

_CLIENT_LEFT = 499
"""nginx's status, visible in traces alone."""
_MAX_TOKENS = 1 << 20
"""The context of each model is its own limit."""


class OpenAIHandlers:
    """The handlers; `responses` are the streams that are being written."""

    def __init__(
        self,
        registry: ModelRegistry,
        responses: InFlight,
        tracing: RequestTracing = NO_TRACING,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._responses = responses
        self._tracing = tracing
        self._now = now
        self._started = int(now())

    def routes(self) -> dict[str, RequestHandler]:
        """The request handlers, by path."""
        parsers = {"/v1/completions": parse_completion, "/v1/chat/completions": parse_chat}
        return {
            "/v1/models": require_method("GET", self._list_models, error_reply),
            "/v1/models/": require_method("GET", self._get_model, error_reply),
            **{
                path: require_method("POST", self._completion_handler(parse), error_reply)
                for path, parse in parsers.items()
            },
        }

    async def _list_models(self, request: Request) -> Reply:
        body = build_model_list([each.spec.name for each in self._list_loaded()], self._started)
        return json_reply(200, msgspec.json.encode(body))

    async def _get_model(self, request: Request) -> Reply:
        name = request.path.removeprefix("/v1/models/")
        try:
            self._find(name)
        except CompletionFailed as error:
            return failure_reply(error)
        (model,) = build_model_list([name], self._started)["data"]
        return json_reply(200, msgspec.json.encode(model))

    def _completion_handler(
        self, parse: Callable[[bytes, int], CompletionRequest]
    ) -> RequestHandler:
        async def handle(request: Request) -> Reply | StreamReply:
            try:
                parsed = parse(request.body, _MAX_TOKENS)
                model = self._find(parsed.model)
                sequence = model.prepare(parsed)
            except CompletionFailed as error:
                return failure_reply(error)
            span = self._tracing.start(parsed.kind, parsed.model, request.headers)
            pieces = model.generate(sequence, parsed.stop)
            answer = answer_completion(
                parsed,
                int(self._now()),
                pieces,
                lambda count: model.count_usage(sequence, count),
            )
            with self._responses:
                reply = await _answer_while_connected(request, answer)
            if isinstance(reply, StreamReply):
                reply.chunks = self._track(reply.chunks, span.end)
            else:
                span.end("" if reply.status < 400 else f"status {reply.status}")
            return reply

        return handle

    async def _track(
        self, chunks: AsyncIterator[bytes], end: Callable[[str], None]
    ) -> AsyncGenerator[bytes]:
        """The chunks; the response counts until the connection has taken the last one."""
        error = "cancelled"
        with self._responses:
            try:
                async for chunk in chunks:
                    yield chunk
                error = ""
            finally:
                end(error)
                if isinstance(chunks, AsyncGenerator):
                    await chunks.aclose()

    def _list_loaded(self) -> list[LanguageModel]:
        return [each for each in self._registry.loaded() if isinstance(each, LanguageModel)]

    def _find(self, name: str) -> LanguageModel:
        try:
            model = self._registry.find(name)
        except InferenceFailed as error:
            if error.kind is ErrorKind.NOT_FOUND:
                raise self._unknown(name) from None
            raise CompletionFailed(
                str(error), error.kind.value, code="model_unavailable", retry_seconds=RETRY_SECONDS
            ) from None
        if not isinstance(model, LanguageModel):
            raise self._unknown(name)
        return model

    def _unknown(self, name: str) -> InvalidRequest:
        names = ", ".join(each.spec.name for each in self._list_loaded())
        others = f"the language models here are {names}"
        if not names:
            others = "this server has no language model, start it with --llm NAME"
        message = f"the model {name!r} does not exist: {others}"
        return InvalidRequest(message, "model", 404, "model_not_found")


async def _answer_while_connected(
    request: Request, answer: Coroutine[None, None, Reply | StreamReply]
) -> Reply | StreamReply:
    """The answer; it is given up, and its place freed, if the client leaves before it is there."""
    if request.wait_for_disconnect is None:
        return await answer
    answering = asyncio.create_task(answer)
    leaving = asyncio.create_task(request.wait_for_disconnect())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
    return error_reply(_CLIENT_LEFT, "the client disconnected")
