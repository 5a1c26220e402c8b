"""Request handlers, and how a server finds the one for a path.

Handlers are functions from `Request` to `Reply`, the types of `kilonova.kube.client.transport`, or
to `StreamReply` for a stream.
"""

from collections.abc import Awaitable, Callable, Mapping

from kilonova.kube.client.transport import Reply, Request, StreamReply

RequestHandler = Callable[[Request], Awaitable[Reply | StreamReply]]
"""Answers one request. An exception is answered with 500 and logged."""

Routes = Mapping[str, RequestHandler]
"""Handlers by path. A path that ends with `/` matches what is directly below it, and `/` itself
matches everything that no other path matches."""

ErrorReply = Callable[[int, str], Reply]
"""The response to a request that fails, from status and message: each server has its format."""


def text_reply(status: int, content: str) -> Reply:
    """A plain-text response."""
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Reply(status, content.encode(), headers)


def text_error(status: int, message: str) -> Reply:
    """An error as one line of plain text."""
    return text_reply(status, f"{message}\n")


def json_reply(status: int, body: bytes) -> Reply:
    """A response with an encoded JSON body."""
    return Reply(status, body, {"content-type": "application/json"})


def page_not_found() -> Reply:
    """The response of Kubernetes' servers to an unknown path."""
    return text_error(404, "404 page not found")


def find_handler(routes: Routes, path: str) -> RequestHandler | None:
    """The handler of the most specific route that matches the path."""
    for candidate in (path, path.rpartition("/")[0] + "/", "/"):
        handler = routes.get(candidate)
        if handler is not None:
            return handler
    return None


def require_method(
    method: str, handler: RequestHandler, error_reply: ErrorReply = text_error
) -> RequestHandler:
    """The handler, for one method: any other is answered with 405."""

    async def handle(request: Request) -> Reply | StreamReply:
        if request.method == method:
            return await handler(request)
        reply = error_reply(405, f"method not allowed: use {method} {request.path}")
        reply.headers["allow"] = method
        return reply

    return handle
