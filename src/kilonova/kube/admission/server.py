"""The admission server.

One task serves. Another is a `CertificateWatcher`: it loads a renewed certificate into the live TLS
context, and publishes the CA (into the webhook configurations) before a certificate it signed is
served, and again whenever it is found missing there.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from kilonova.kube.admission.review import (
    AdmissionRequest,
    AdmissionResponse,
    Denied,
    InvalidReview,
    decode_review,
    encode_response,
)
from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.certificate_sources import CertificateSource, WallClock, utc_now
from kilonova.kube.serving.certificate_watcher import CertificateWatcher, PublishCaBundle
from kilonova.kube.serving.http_server import create_tls_context
from kilonova.kube.serving.routing import (
    RequestHandler,
    Routes,
    json_reply,
    require_method,
    text_error,
)
from kilonova.kube.serving.web_server import WebServer

Handler: TypeAlias = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]
"""Decides one request. An exception rejects it with 500, a timeout with 504."""

_BODY_LIMIT = 8 * 1024 * 1024  # two objects of the maximum size, and the envelope
_DEFAULT_TIMEOUT_SECONDS = 10.0
_TIMEOUT_MARGIN_SECONDS = 0.5

log = get_logger(__name__)


class AdmissionServer:
    """Serves handlers by path. A `GracefulRunnable`: `stop` finishes the requests in flight.

    `publish` is typically `lambda ca: ensure_ca_bundle(client, "my-webhooks", ca)`; `routes` may
    add health checks and metrics on the same port.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        source: CertificateSource,
        *,
        host: str = "",
        port: int = 9443,
        publish: PublishCaBundle | None = None,
        routes: Routes | None = None,
        metrics: Metrics | None = None,
        check_seconds: float = 60.0,
        wall: WallClock = utc_now,
    ) -> None:
        self.name = "admission"
        self._metrics = metrics or Metrics()
        tls = create_tls_context()
        self.certificate = CertificateWatcher(
            self.name,
            source,
            tls,
            publish=publish,
            metrics=self._metrics,
            check_seconds=check_seconds,
            wall=wall,
        )
        served = {path: self._review_handler(handler) for path, handler in handlers.items()}
        self._server = WebServer(
            self.name,
            {**(routes or {}), **served},
            host=host,
            port=port,
            tls=tls,
            body_limit=_BODY_LIMIT,
        )

    def bind(self) -> int:
        """Open the port and return its number (0 picks a free one)."""
        return self._server.bind()

    @property
    def ca_pem(self) -> bytes:
        """The CA bundle that clients must trust; empty until the first certificate is loaded."""
        return self.certificate.ca_pem

    async def run(self) -> None:
        """Serve until `stop`. Fails at once if no certificate can be loaded at the start."""
        await self.certificate.load()
        watching = asyncio.create_task(self.certificate.run())
        try:
            await self._server.run()
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    def stop(self) -> None:
        """Finish the requests in flight and let `run` return."""
        self._server.stop()

    def _review_handler(self, handler: Handler) -> RequestHandler:
        async def review(request: Request) -> Reply:
            started = time.perf_counter()
            try:
                question = decode_review(request.body)
            except InvalidReview as error:
                self._metrics.observe_admission(request.path, 400, time.perf_counter() - started)
                return text_error(400, str(error))
            answer = await _run_handler(handler, question, request)
            body = encode_response(question.uid, request.body, answer)
            code = answer.code if isinstance(answer, Denied) else 200
            self._metrics.observe_admission(request.path, code, time.perf_counter() - started)
            return json_reply(200, body)

        return require_method("POST", review)


async def _run_handler(
    handler: Handler, review: AdmissionRequest, request: Request
) -> AdmissionResponse:
    limit = _handler_timeout(request)
    object_name = f"{review.kind.kind} {review.namespace}/{review.name}"
    try:
        async with asyncio.timeout(limit):
            return await handler(review)
    except TimeoutError:
        log.error("admission handler timed out", path=request.path, object=object_name, limit=limit)
        return Denied(f"{request.path} did not decide within {limit:.1f} s", 504, "Timeout")
    except Exception as error:
        log.exception("admission handler failed", path=request.path, object=object_name)
        return Denied(f"{request.path} failed: {error!r}", 500, "InternalError")


def _handler_timeout(request: Request) -> float:
    """Slightly less than the timeout that the API server states in the query."""
    stated = re.fullmatch(r"(\d+)s", request.query_param("timeout") or "")
    seconds = float(stated[1]) if stated else _DEFAULT_TIMEOUT_SECONDS
    return max(seconds - _TIMEOUT_MARGIN_SECONDS, seconds / 2)
