"""The HTTP API: `GET /v1/topology`, `/v1/topology/NODE` and `/v1/best-set`."""

import msgspec

from kilonova.gpu.topologyservice.authorization import AccessDenied, Authorizer
from kilonova.gpu.topologyservice.best_set import InvalidQuery
from kilonova.gpu.topologyservice.queries import parse_query
from kilonova.gpu.topologyservice.service import TopologyService
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.serving.routing import RequestHandler, json_reply, require_method

TOPOLOGY = "/v1/topology"
BEST_SET = "/v1/best-set"


class TopologyHandlers:
    """Authorises a request, and answers it. Without an authorizer everybody may ask."""

    def __init__(self, service: TopologyService, authorizer: Authorizer | None) -> None:
        self._service = service
        self._authorizer = authorizer

    def routes(self) -> dict[str, RequestHandler]:
        """The handlers by path."""
        return {
            TOPOLOGY: self._guard(self._cluster),
            f"{TOPOLOGY}/": self._guard(self._node),
            BEST_SET: self._guard(self._best_set),
            "/": _unknown_path,
        }

    def _guard(self, handler: RequestHandler) -> RequestHandler:
        async def handle(request: Request) -> Reply | StreamReply:
            if self._authorizer is not None:
                try:
                    await self._authorizer.require(request.headers, request.path)
                except AccessDenied as error:
                    return error_reply(error.status, str(error))
            if not self._service.has_synced():
                return error_reply(503, "the caches are not complete yet: try again")
            return await handler(request)

        return require_method("GET", handle, error_reply)

    async def _cluster(self, request: Request) -> Reply:
        return json_reply(200, self._service.index.cluster_json())

    async def _node(self, request: Request) -> Reply:
        name = request.path.removeprefix(f"{TOPOLOGY}/")
        found = self._service.index.node_json(name)
        if found is None:
            return error_reply(404, f"node {name!r} does not exist, or has no GPUs")
        return json_reply(200, found)

    async def _best_set(self, request: Request) -> Reply:
        try:
            answer = self._service.best_set(parse_query(request.query))
        except InvalidQuery as error:
            return error_reply(400, str(error))
        return json_reply(200, msgspec.json.encode(answer))


def error_reply(status: int, message: str) -> Reply:
    """An error as JSON."""
    reply = json_reply(status, msgspec.json.encode({"error": message}))
    if status == 401:
        reply.headers["www-authenticate"] = "Bearer"
    return reply


async def _unknown_path(request: Request) -> Reply:
    return error_reply(
        404, f"{request.path}: there are {TOPOLOGY}, {TOPOLOGY}/NODE and {BEST_SET}?gpus=N"
    )
