"""The API handler: one request in, one response out, over any transport.

HTTP and in-process clients both call `ApiHandler.handle`, with an authenticated user. Every
rejection is an `ApiError` raised somewhere below and converted to a `Status` here, once.
"""

from time import perf_counter

from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.routing import page_not_found
from kilonova.local.apimachinery.errors import ApiError, PageNotFound, bad_request, internal
from kilonova.local.apiserver.auth import AuthorizationFilter, User
from kilonova.local.apiserver.endpoints.handlers import ResourceHandler
from kilonova.local.apiserver.endpoints.request_info import RequestInfo, parse_request_info
from kilonova.local.apiserver.endpoints.resource_target import resolve_target
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.server.metrics import ServerMetrics
from kilonova.local.apiserver.server.non_resource import NonResourceHandler
from kilonova.local.apiserver.storage import StorageError

Response = Reply | StreamReply

_log = get_logger("kilonova.local.apiserver.server.handler")


class ApiHandler:
    """Handles requests of authenticated users."""

    def __init__(
        self,
        registry: RegistryContext,
        non_resource_handler: NonResourceHandler,
        resource_handler: ResourceHandler,
        authorization: AuthorizationFilter,
        metrics: ServerMetrics,
    ) -> None:
        self.registry = registry
        self._non_resource_handler = non_resource_handler
        self._resource_handler = resource_handler
        self._authorization = authorization
        self._metrics = metrics

    async def handle(
        self, request: Request, user: User, info: RequestInfo | None = None
    ) -> Response:
        """Handle one request. Raises only on cancellation.

        `info` is passed if the request has been parsed already, to read its body.
        """
        started = perf_counter()
        response = await self._handle(request, info or parse_request_info(request), user)
        seconds = None if isinstance(response, StreamReply) else perf_counter() - started
        self._metrics.record_request(request.method, response.status, seconds)
        return response

    async def _handle(self, request: Request, info: RequestInfo, user: User) -> Response:
        try:
            user = self._authorization.authorize_request(info, request.headers, user)
            if not info.is_resource_request:
                return self._non_resource_handler.handle(request, info)
            target = resolve_target(info, self.registry.served_kinds)
            return await self._resource_handler.handle(request, info, target, user)
        except ApiError as error:
            return status_reply(error)
        except PageNotFound:
            return page_not_found()
        except StorageError as error:
            return status_reply(internal(str(error)))
        except RecursionError:
            # Raised for a patch, say: an object nested this deeply is never stored.
            return status_reply(bad_request("exceeded max depth"))
        except Exception:
            _log.exception("request failed", method=request.method, path=request.path)
            return status_reply(internal("Internal error occurred: see the server's log"))


def status_reply(error: ApiError) -> Reply:
    """A `Status` object as a response."""
    headers = {name.lower(): value for name, value in error.headers.items()}
    headers["content-type"] = "application/json"
    return Reply(error.code, encode(error.status()), headers)
