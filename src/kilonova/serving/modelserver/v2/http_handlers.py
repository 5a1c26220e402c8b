"""The v2 protocol over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving.routing import RequestHandler, json_reply
from kilonova.serving.modelserver.errors import RETRY_SECONDS, ErrorKind, InferenceFailed
from kilonova.serving.modelserver.execution import ServedModel
from kilonova.serving.modelserver.registry import ModelRegistry
from kilonova.serving.modelserver.tracing import NO_TRACING, RequestTracing
from kilonova.serving.modelserver.v2.http_body import (
    HEADER_LENGTH,
    encode_response,
    parse_request,
)
from kilonova.serving.modelserver.v2.messages import describe_server

_JSON = "application/json"
_BINARY = "application/octet-stream"
_MODELS = "/v2/models/"
_VERSIONS = "versions"


class V2Handlers:
    """The handlers of all paths below `/v2`."""

    def __init__(
        self,
        registry: ModelRegistry,
        is_ready: Callable[[], bool],
        tracing: RequestTracing = NO_TRACING,
    ) -> None:
        self._registry = registry
        self._is_ready = is_ready
        self._tracing = tracing

    def routes(self) -> dict[str, RequestHandler]:
        """The request handlers, by path; `/` has the paths with the name of a model."""
        return {
            "/v2": self._guard("GET", self._get_server),
            "/v2/health/live": self._guard("GET", self._get_live),
            "/v2/health/ready": self._guard("GET", self._get_ready),
            # As servers of the OpenAI API have it.
            "/health": self._guard("GET", self._get_ready),
            "/v2/models/stats": self._guard("GET", self._get_statistics),
            "/v2/repository/index": self._guard("POST", self._get_index),
            "/": self._handle_model,
        }

    async def _handle_model(self, request: Request) -> Reply:
        path = request.path
        if path.startswith(_MODELS):
            name, _, action = path.removeprefix(_MODELS).partition("/")
            version = ""
            if action.startswith(_VERSIONS):
                _, version, action = (*action.split("/", 2), "", "")[:3]
            if action == "infer":
                return await self._run("POST", request, self._infer(name, version, request))
            describe = {
                "": self._describe_model,
                "ready": self._describe_ready,
                "config": self._describe_config,
                "stats": self._describe_statistics,
            }.get(action)
            if describe is not None:
                return await self._run("GET", request, describe(name, version))
        elif path.startswith("/v2/repository/models/"):
            name, _, action = path.removeprefix("/v2/repository/models/").partition("/")
            if action == "load":
                return await self._run("POST", request, self._load(name, request))
            if action == "unload":
                return await self._run("POST", request, self._unload(name))
        return _error_reply(404, f"there is no path {path}")

    def _guard(self, method: str, handler: Callable[[Request], Awaitable[Reply]]) -> RequestHandler:
        async def handle(request: Request) -> Reply:
            return await self._run(method, request, handler(request))

        return handle

    async def _run(self, method: str, request: Request, answer: Any) -> Reply:
        """The answer, or the error that it raises."""
        if request.method != method:
            answer.close()
            reply = _error_reply(405, f"method not allowed: use {method} {request.path}")
            reply.headers["allow"] = method
            return reply
        try:
            return await answer
        except InferenceFailed as error:
            reply = _error_reply(error.kind.value, str(error))
            if error.may_retry:
                reply.headers["retry-after"] = str(RETRY_SECONDS)
            return reply

    async def _infer(self, name: str, version: str, request: Request) -> Reply:
        span = self._tracing.start("ModelInfer", name, request.headers)
        try:
            reply = await self._infer_model(name, version, request)
        except InferenceFailed as error:
            span.end(str(error))
            raise
        span.end()
        return reply

    async def _infer_model(self, name: str, version: str, request: Request) -> Reply:
        model = find_tensor_model(self._registry, name, version)
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise InferenceFailed(
                ErrorKind.INVALID_ARGUMENT, f"content-encoding {encoding!r}: send it uncompressed"
            )
        parsed, binary = parse_request(
            name, version, request.body, request.headers.get(HEADER_LENGTH)
        )
        outputs = await model.infer(parsed.inputs, parsed.outputs)
        body, header_length = encode_response(parsed, model.spec.version, outputs, binary)
        if not header_length:
            return Reply(200, body, {"content-type": _JSON})
        return Reply(200, body, {"content-type": _BINARY, HEADER_LENGTH: str(header_length)})

    async def _get_server(self, request: Request) -> Reply:
        return _encode(describe_server())

    async def _get_live(self, request: Request) -> Reply:
        return _encode({"live": True})

    async def _get_ready(self, request: Request) -> Reply:
        ready = self._is_ready()
        return json_reply(200 if ready else 503, msgspec.json.encode({"ready": ready}))

    async def _get_statistics(self, request: Request) -> Reply:
        return _encode({"model_stats": describe_statistics(self._registry)})

    async def _get_index(self, request: Request) -> Reply:
        only_ready = _read_body(request).get("ready") is True
        return _encode(self._registry.describe_index(only_ready=only_ready))

    async def _describe_model(self, name: str, version: str) -> Reply:
        return _encode(self._registry.find(name, version).spec.describe())

    async def _describe_ready(self, name: str, version: str) -> Reply:
        ready = self._registry.is_ready(name, version)
        body = msgspec.json.encode({"name": name, "ready": ready})
        return json_reply(200 if ready else 503, body)

    async def _describe_config(self, name: str, version: str) -> Reply:
        return _encode(self._registry.find(name, version).spec.describe_config())

    async def _describe_statistics(self, name: str, version: str) -> Reply:
        return _encode({"model_stats": describe_statistics(self._registry, name, version)})

    async def _load(self, name: str, request: Request) -> Reply:
        if parameters := _read_body(request).get("parameters"):
            refuse_load_parameters(parameters)
        await self._registry.load(name)
        return _encode({})

    async def _unload(self, name: str) -> Reply:
        await self._registry.unload(name)
        return _encode({})


def find_tensor_model(registry: ModelRegistry, name: str, version: str) -> ServedModel:
    """A model that takes tensors."""
    model = registry.find(name, version)
    if not isinstance(model, ServedModel):
        raise InferenceFailed(
            ErrorKind.INVALID_ARGUMENT,
            f"model {name!r} is a language model: use POST /v1/completions",
        )
    return model


def describe_statistics(
    registry: ModelRegistry, name: str = "", version: str = ""
) -> list[dict[str, Any]]:
    """The statistics of a model, or of all."""
    models = [registry.find(name, version)] if name else list(registry.loaded())
    return [each.statistics.describe(each.spec.name, each.spec.version) for each in models]


def refuse_load_parameters(names: Any) -> None:
    """`InferenceFailed` for parameters that replace files of the repository."""
    for name in names:
        raise InferenceFailed(
            ErrorKind.INVALID_ARGUMENT,
            f"parameter {name!r} is not available: models are loaded as they are in the repository",
        )


def _read_body(request: Request) -> dict[str, Any]:
    """The fields of an optional JSON body."""
    if not request.body:
        return {}
    try:
        return msgspec.json.decode(request.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InferenceFailed(
            ErrorKind.INVALID_ARGUMENT, f"the body is no JSON object: {error}"
        ) from None


def _encode(body: object) -> Reply:
    return json_reply(200, msgspec.json.encode(body))


def _error_reply(status: int, message: str) -> Reply:
    return json_reply(status, msgspec.json.encode({"error": message}))
