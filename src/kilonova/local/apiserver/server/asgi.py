"""The API over HTTP: an ASGI application.

Request bodies are read whole, up to a limit, unless they are proxied to a pod; responses are sent
whole or streamed, as fast as the client reads. A watch ends when its client disconnects, or when
the server stops; so does a session on an upgraded connection.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine

from kilonova.kube.client.transport import Request, StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.asgi import (
    BodyLimits,
    BodyTooLarge,
    ClientDisconnected,
    Receive,
    Scope,
    Send,
    decode_headers,
    decode_query,
    read_body,
    wait_for_disconnect,
)
from kilonova.kube.serving.open_streams import OpenStreams
from kilonova.kube.serving.response_writer import PendingWrite, PendingWrites, ResponseWriter
from kilonova.local.apimachinery.errors import ApiError, too_large, unauthorized
from kilonova.local.apiserver.auth import Authenticator, User, allows_anonymous, impersonation
from kilonova.local.apiserver.endpoints.handlers import BODY_LIMIT
from kilonova.local.apiserver.endpoints.request_info import RequestInfo, parse_request_info
from kilonova.local.apiserver.server.connection import ApiConnection
from kilonova.local.apiserver.server.handler import ApiHandler, Response, status_reply
from kilonova.local.apiserver.streaming import (
    ProxyReply,
    ProxyRequest,
    Upgrade,
    serve_session,
)

BODY_LIMITS = BodyLimits(size=BODY_LIMIT, seconds=60, idle_seconds=15)

_ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))

_log = get_logger(__name__)


class AsgiApp:
    """Serves an `ApiHandler` on `ApiConnection`s."""

    def __init__(
        self, api: ApiHandler, authenticator: Authenticator, pending_writes: PendingWrites
    ) -> None:
        self._api = api
        self._authenticator = authenticator
        self._pending_writes = pending_writes
        self._streams = OpenStreams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, info = _parse_request(scope)
        connection: ApiConnection = scope["state"]["connection"]
        writer = ResponseWriter(send, connection, self._pending_writes, request.path)
        try:
            user = self._authenticate(request, info, connection)
            if isinstance(request, ProxyRequest):
                await self._proxy(request, info, user, receive, writer)
                return
            request.body = await read_body(request.headers, receive, BODY_LIMITS)
        except ApiError as error:
            await writer.send_reply(status_reply(error))
        except BodyTooLarge:
            reply = status_reply(too_large(BODY_LIMITS.size))
            await writer.send_reply(reply, close_connection=True)
        except TimeoutError:
            reply = status_reply(_body_timeout_error())
            await writer.send_reply(reply, close_connection=True)
        except ClientDisconnected:
            return
        else:
            response = await self._api.handle(request, user, info)
            if isinstance(response, Upgrade):
                await self._serve_upgrade(response, connection, request.path)
            elif isinstance(response, StreamReply):
                stream = _send_response(response, writer)
                await self._run_stream(stream, wait_for_disconnect(receive), request.path)
            else:
                await writer.send_reply(response)

    async def end_streams(self) -> None:
        """End every watch and session, so that clients notice at once that the server stops."""
        await self._streams.end()

    def _authenticate(self, request: Request, info: RequestInfo, connection: ApiConnection) -> User:
        user = self._authenticator.authenticate(request.headers, connection.peer)
        if user is not None:
            return user
        if allows_anonymous(info):
            return _ANONYMOUS
        raise unauthorized()

    async def _serve_upgrade(self, upgrade: Upgrade, connection: ApiConnection, path: str) -> None:
        session = upgrade.session
        assert session is not None
        try:
            wire = connection.hijack(upgrade.headers)
            wire.track_blocked_write = lambda size: self._pending_writes.track(
                PendingWrite(wire.abort, path, not upgrade.waits_for_client), size
            )
            await self._run_stream(serve_session(session, wire), wire.wait_lost(), path)
        except ConnectionResetError:
            return
        finally:
            await session.cleanup()

    async def _proxy(
        self,
        request: ProxyRequest,
        info: RequestInfo,
        user: User,
        receive: Receive,
        writer: ResponseWriter,
    ) -> None:
        upload = _ProxyUpload(receive)
        request.chunks = upload.chunks()

        async def respond() -> None:
            await _send_response(await self._api.handle(request, user, info), writer)

        await self._run_stream(respond(), upload.run(), request.path)

    async def _run_stream(
        self,
        stream: Coroutine[None, None, None],
        disconnected: Coroutine[None, None, None],
        path: str,
    ) -> None:
        error = await self._streams.run(stream, disconnected)
        if error is not None and not isinstance(error, OSError):  # a lost connection is no fault
            _log.error("stream failed", path=path, error=repr(error))


class _ProxyUpload:
    """The body of a proxied request, read in small pieces."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    async def run(self) -> None:
        """Read what arrives, and return when the client has disconnected."""
        while (message := await self._receive())["type"] != "http.disconnect":
            if body := message.get("body", b""):
                await self._chunks.put(body)
            if not message.get("more_body"):
                await self._chunks.put(None)
                await wait_for_disconnect(self._receive)
                return

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk


async def _send_response(response: Response, writer: ResponseWriter) -> None:
    if isinstance(response, ProxyReply):
        # A truncated response of a pod must not look complete.
        await writer.send_stream(response, response.header_pairs, may_end_anywhere=False)
    elif isinstance(response, StreamReply):
        await writer.send_stream(response, response.headers.items())
    else:
        await writer.send_reply(response)


def _body_timeout_error() -> ApiError:
    return ApiError(
        504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}
    )


def _parse_request(scope: Scope) -> tuple[Request, RequestInfo]:
    raw_path: bytes = scope["raw_path"]
    path = raw_path.decode("latin-1")
    query = decode_query(scope)
    headers = decode_headers(scope["headers"])
    if len(headers) < len(scope["headers"]):
        headers |= impersonation.join_impersonation_headers(scope["headers"])
    request = Request(scope["method"], path, query, headers)
    info = parse_request_info(request)
    if info.is_proxy:
        client = (scope.get("client") or ("",))[0]
        raw_query = scope["query_string"].decode("latin-1")
        request = ProxyRequest(
            request.method, path, query, headers, raw_query=raw_query, client=client
        )
    return request, info
