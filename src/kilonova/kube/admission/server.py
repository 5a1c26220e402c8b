"""The server that answers reviews.

One task serves; another looks after the certificate once a minute: a new one is loaded into
the live TLS context, so that connections that exist go on and later ones see it. The authority
is published (into the webhook configurations) before a certificate of it is shown, and again
whenever it is found missing there.
"""

import asyncio
import re
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from kilonova.kube.admission.review import (
    Answer,
    Denied,
    NotAReview,
    Review,
    decode_review,
    encode_answer,
)
from kilonova.kube.admission.sources import (
    CertificateSource,
    Clock,
    Credentials,
    expiry,
    utc_now,
)
from kilonova.kube.errors import KubeError
from kilonova.kube.logging import get_logger
from kilonova.kube.metrics import Metrics
from kilonova.kube.transport import Reply, Request
from kilonova.kube.webserver import Endpoint, WebServer, text

Handler: TypeAlias = Callable[[Review], Awaitable[Answer]]
"""Decides about one review. Raising refuses the request with 500; taking too long, with 504."""

Publish: TypeAlias = Callable[[bytes], Awaitable[object]]
"""Makes the API server trust a bundle of authorities; must be idempotent."""

_BODY_LIMIT = 8 * 1024 * 1024  # two objects of the largest size, and room for the rest
_DEFAULT_TIMEOUT = 10.0
_MARGIN = 0.5

log = get_logger(__name__)


class AdmissionServer:
    """Serves handlers by path. A part of the process: `run` it, `stop` finishes gracefully.

    `publish` is typically `lambda ca: ensure_ca_bundle(client, "my-webhooks", ca)`;
    `endpoints` may add health and metrics on the same port.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        source: CertificateSource,
        *,
        host: str = "",
        port: int = 9443,
        publish: Publish | None = None,
        endpoints: Mapping[str, Endpoint] | None = None,
        metrics: Metrics | None = None,
        check_seconds: float = 60.0,
        wall: Clock = utc_now,
    ) -> None:
        self.name = "admission"
        self._source = source
        self._publish = publish
        self._metrics = metrics or Metrics()
        self._check_seconds = check_seconds
        self._wall = wall
        self._loaded: Credentials | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        served = {path: self._endpoint(handler) for path, handler in handlers.items()}
        self._web = WebServer(
            self.name,
            {**(endpoints or {}), **served},
            host=host,
            port=port,
            tls=self._context,
            body_limit=_BODY_LIMIT,
        )

    def bind(self) -> int:
        """Take the port now, and say which (0 picks a free one)."""
        return self._web.bind()

    @property
    def ca_pem(self) -> bytes:
        """What clients must trust; empty before the first certificate is loaded."""
        return self._loaded.ca_pem if self._loaded else b""

    async def run(self) -> None:
        """Serve until `stop`. Fails at once if there is no certificate to begin with."""
        self._load(await self._source.current(self._wall()))
        keeping = asyncio.create_task(self._keep_certificate())
        try:
            await self._web.run()
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    def stop(self) -> None:
        """Finish the reviews under way and let `run` return."""
        self._web.stop()

    async def check_certificate(self) -> None:
        """Load a renewed certificate, and see that the authority is published.

        Called by `run` every `check_seconds`. A failure is logged and mended at the next
        call; until then the certificate stays as it is.
        """
        try:
            credentials = await self._source.current(self._wall())
            if self._publish is not None:
                await self._publish(credentials.ca_pem)
            if credentials != self._loaded:
                self._load(credentials)
        except (KubeError, OSError, ValueError) as error:
            log.warning("the certificate could not be looked after", error=str(error))

    async def _keep_certificate(self) -> None:
        while True:
            await self.check_certificate()
            await asyncio.sleep(self._check_seconds)

    def _load(self, credentials: Credentials) -> None:
        # The ssl module reads from files only; these live for the time of the call.
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            credentials.pair.write(cert, key)
            # A pair that does not fit would leave a context useless: not the live one first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
            self._context.load_cert_chain(cert, key)
        self._loaded = credentials
        expires = expiry(credentials.pair.cert_pem)
        self._metrics.certificate_expires(self.name, expires.timestamp())
        log.info("certificate loaded", expires=expires.isoformat())

    def _endpoint(self, handler: Handler) -> Endpoint:
        async def review(request: Request) -> Reply:
            if request.method != "POST":
                return text(405, "admission reviews are sent with POST\n")
            begin = time.perf_counter()
            try:
                question = decode_review(request.body)
            except NotAReview as error:
                self._metrics.admitted(request.path, 400, time.perf_counter() - begin)
                return text(400, f"{error}\n")
            answer = await _decided(handler, question, request)
            body = encode_answer(question.uid, request.body, answer)
            code = answer.code if isinstance(answer, Denied) else 200
            self._metrics.admitted(request.path, code, time.perf_counter() - begin)
            return Reply(200, body, {"content-type": "application/json"})

        return review


async def _decided(handler: Handler, review: Review, request: Request) -> Answer:
    limit = _time_limit(request)
    about = f"{review.kind.kind} {review.namespace}/{review.name}"
    try:
        async with asyncio.timeout(limit):
            return await handler(review)
    except TimeoutError:
        log.error("review not decided in time", path=request.path, about=about, limit=limit)
        return Denied(f"{request.path} did not decide within {limit:.1f} s", 504, "Timeout")
    except Exception as error:
        log.exception("review failed", path=request.path, about=about)
        return Denied(f"{request.path} failed: {error!r}", 500, "InternalError")


def _time_limit(request: Request) -> float:
    """A little less than the API server is willing to wait, which it says in the query."""
    asked = re.fullmatch(r"(\d+)s", request.param("timeout") or "")
    seconds = float(asked[1]) if asked else _DEFAULT_TIMEOUT
    return max(seconds - _MARGIN, seconds / 2)
