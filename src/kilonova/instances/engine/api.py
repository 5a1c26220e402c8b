"""The HTTP API of the conductor, and the health checks of both programs."""

import os
import time
from collections.abc import Callable
from typing import Any

import msgspec

from kilonova.instances.engine.agent import Agent
from kilonova.instances.engine.conductor import AgentsMissing, Conductor
from kilonova.instances.engine.generation import generate_text
from kilonova.instances.engine.metrics import EngineMetrics
from kilonova.instances.engine.settings import ConductorSettings
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.serving.routing import RequestHandler, json_reply, require_method
from kilonova.openai_api.answers import Pieces, answer_completion, failure_reply
from kilonova.openai_api.completions import (
    CompletionFailed,
    CompletionRequest,
    InvalidRequest,
    parse_chat,
    parse_completion,
)
from kilonova.openai_api.responses import Usage, build_model_list, error_reply
from kilonova.openai_api.text import count_tokens

_RETRY_SECONDS = 1


def health_routes(describe: Callable[[], tuple[bool, dict[str, Any]]]) -> dict[str, RequestHandler]:
    """`/health/live` and `/health/ready`; the function reports whether the program is ready, and
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
        return json_reply(200, msgspec.json.encode(build_model_list([self._model], self._started)))

    def _completion_handler(self, parse: Callable[[bytes], CompletionRequest]) -> RequestHandler:
        async def handle(request: Request) -> Reply | StreamReply:
            try:
                reply = await self._complete(parse(request.body))
            except CompletionFailed as error:
                reply = failure_reply(error)
            self._metrics.requests(str(reply.status)).inc()
            return reply

        return handle

    async def _complete(self, request: CompletionRequest) -> Reply | StreamReply:
        if request.model != self._model:
            message = f"the model {request.model!r} does not exist: this engine has {self._model!r}"
            raise InvalidRequest(message, "model", 404, "model_not_found")
        prompt = count_tokens(request.prompt)
        pieces = self._generate(request)
        return await answer_completion(
            request, int(self._now()), pieces, lambda count: Usage(prompt, count)
        )

    async def _generate(self, request: CompletionRequest) -> Pieces:
        try:
            self._conductor.require_all()
            async for found in generate_text(self._conductor, self._model, request):
                self._metrics.tokens.inc()
                yield found
        except AgentsMissing as error:
            raise CompletionFailed(
                str(error),
                503,
                code="agents_missing",
                retry_seconds=_RETRY_SECONDS,
                missing_agents=error.missing,
                agents=error.agents,
            ) from None
