"""The HTTP API of the conductor, and the health checks of both programs."""

import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from kilonova.instances.engine.agent import Agent
from kilonova.instances.engine.conductor import AgentsMissing, Conductor
from kilonova.instances.engine.generation import generate_text
from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.openai import (
    CompletionRequest,
    FinishReason,
    InvalidRequest,
    Usage,
    build_chunk,
    build_error,
    build_response,
    encode_event,
    error_reply,
    parse_chat,
    parse_completion,
)
from kilonova.instances.engine.settings import ConductorSettings
from kilonova.instances.engine.tokens import count_tokens
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.serving.routing import RequestHandler, json_reply, require_method

_RETRY_SECONDS = "1"
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}


def health_routes(describe: Callable[[], tuple[bool, dict[str, Any]]]) -> dict[str, RequestHandler]:
    """`/health/live` and `/health/ready`; the function says whether the program is ready, and
    why not."""

    async def live(request: Request) -> Reply:
        # The pid is for killing just this process, to see the instance recover.
        return json_reply(200, msgspec.json.encode({"live": True, "pid": os.getpid()}))

    async def ready(request: Request) -> Reply:
        is_ready, fields = describe()
        body = msgspec.json.encode({"ready": is_ready, **fields})
        return json_reply(200 if is_ready else 503, body)

    return {"/health/live": live, "/health/ready": ready}


def agent_routes(agent: Agent) -> dict[str, RequestHandler]:
    """The health checks of an agent."""
    return health_routes(
        lambda: (agent.is_ready, {"joined": agent.is_joined, "problem": agent.problem})
    )


class ConductorApi:
    """OpenAI's API, answered by all agents."""

    def __init__(
        self,
        settings: ConductorSettings,
        conductor: Conductor,
        metrics: EngineMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._model = settings.model
        self._agents = settings.agents
        self._conductor = conductor
        self._metrics = metrics
        self._now = now
        self._started = int(now())

    def routes(self) -> dict[str, RequestHandler]:
        """The request handlers, by path."""
        parsers = {"/v1/completions": parse_completion, "/v1/chat/completions": parse_chat}
        completions = {
            path: require_method("POST", self._completion_handler(parse), error_reply)
            for path, parse in parsers.items()
        }
        return {
            "/v1/models": require_method("GET", self._list_models, error_reply),
            **completions,
            **health_routes(self._describe_health),
        }

    def _describe_health(self) -> tuple[bool, dict[str, Any]]:
        missing = self._conductor.missing
        joined = self._agents - len(missing)
        return not missing, {"agents": self._agents, "joined": joined, "missing": missing}

    async def _list_models(self, request: Request) -> Reply:
        model = {
            "id": self._model,
            "object": "model",
            "created": self._started,
            "owned_by": "kilonova",
        }
        return json_reply(200, msgspec.json.encode({"object": "list", "data": [model]}))

    def _completion_handler(
        self, parse: Callable[[Request, str], CompletionRequest]
    ) -> RequestHandler:
        async def handle(request: Request) -> Reply | StreamReply:
            try:
                parsed = parse(request, self._model)
                self._conductor.require_all()
                reply = await self._complete(parsed)
            except InvalidRequest as error:
                body = build_error(str(error), error.status, error.param, error.code)
                reply = json_reply(error.status, msgspec.json.encode(body))
            except AgentsMissing as error:
                reply = json_reply(503, msgspec.json.encode(_describe_missing(error)))
                reply.headers["retry-after"] = _RETRY_SECONDS
            self._metrics.requests(str(reply.status)).inc()
            return reply

        return handle

    async def _complete(self, request: CompletionRequest) -> Reply | StreamReply:
        id = (
            f"{'chatcmpl' if request.kind == 'chat.completion' else 'cmpl'}-{secrets.token_hex(12)}"
        )
        created = int(self._now())
        pieces = self._generate(request)
        if request.is_stream:
            # An error of the first token is a status; later ones are an event.
            first = await anext(pieces)
            return StreamReply(200, self._stream(request, id, created, first, pieces), _EVENTS)
        text, finish, count = "", "length", 0
        async for piece, end in pieces:
            text, finish, count = text + piece, end or finish, count + 1
        usage = Usage(count_tokens(request.prompt), count)
        body = build_response(request, self._model, id, created, text, finish, usage)
        return json_reply(200, msgspec.json.encode(body))

    async def _generate(
        self, request: CompletionRequest
    ) -> AsyncGenerator[tuple[str, FinishReason | None]]:
        async for found in generate_text(self._conductor, self._model, request):
            self._metrics.tokens.inc()
            yield found

    async def _stream(
        self,
        request: CompletionRequest,
        id: str,
        created: int,
        first: tuple[str, FinishReason | None],
        rest: AsyncGenerator[tuple[str, FinishReason | None]],
    ) -> AsyncGenerator[bytes]:
        head = (request, self._model, id, created)
        if request.kind == "chat.completion":
            yield build_chunk(*head, "", None)
        count = 1
        try:
            piece, finish = first
            yield build_chunk(*head, piece or None, finish)
            async for piece, finish in rest:
                count += 1
                yield build_chunk(*head, piece or None, finish)
        except AgentsMissing as error:
            # The status is sent already: the stream ends with an error, and without [DONE].
            yield encode_event(_describe_missing(error))
            return
        if request.with_usage:
            usage = Usage(count_tokens(request.prompt), count)
            yield build_chunk(*head, None, None, usage)
        yield b"data: [DONE]\n\n"


def _describe_missing(error: AgentsMissing) -> dict[str, Any]:
    return build_error(
        str(error), 503, code="agents_missing", missing_agents=error.missing, agents=error.agents
    )
