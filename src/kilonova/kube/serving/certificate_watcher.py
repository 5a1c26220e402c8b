"""Keeps the certificate of a live server up to date, as controller-runtime's certwatcher."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from kilonova.kube.client.errors import KubeError
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.certificate_sources import (
    CertificateSource,
    ServingCertificate,
    WallClock,
    certificate_expiry,
    utc_now,
)
from kilonova.kube.serving.certificates import KeyPair

PublishCaBundle: TypeAlias = Callable[[bytes], Awaitable[object]]
"""Makes clients trust a CA bundle; must be idempotent."""

log = get_logger(__name__)


class LiveCertificate(Protocol):
    """What a server takes its certificate from at every handshake, other than an `SSLContext`."""

    def load_pair(self, pair: KeyPair) -> None:
        """Use a certificate from now on; ValueError if it is unusable."""
        ...


class CertificateWatcher:
    """A runnable that keeps the certificate of a server up to date with a certificate source.

    The source is checked once a minute. A renewed certificate is loaded into the live server: open
    connections continue, new ones use it. With `publish`, its CA is published before it is served,
    and again at every check. The expiry is a metric of the server.
    """

    def __init__(
        self,
        server: str,
        source: CertificateSource,
        target: ssl.SSLContext | LiveCertificate,
        *,
        publish: PublishCaBundle | None = None,
        metrics: Metrics | None = None,
        check_seconds: float = 60.0,
        wall: WallClock = utc_now,
    ) -> None:
        self.name = "certificate"
        self._server = server
        self._source = source
        self._target = target
        self._publish = publish
        self._metrics = metrics
        self._check_seconds = check_seconds
        self._wall = wall
        self._loaded: ServingCertificate | None = None

    @property
    def ca_pem(self) -> bytes:
        """The CA bundle that clients must trust; empty until the first certificate is loaded."""
        return self._loaded.ca_pem if self._loaded else b""

    async def load(self) -> None:
        """Load the source's current certificate; `OSError` or `ValueError` if it is unusable."""
        self._load(await self._source.current(self._wall()))

    async def run(self) -> None:
        """Check the certificate forever."""
        while True:
            await self.check()
            await asyncio.sleep(self._check_seconds)

    async def check(self) -> None:
        """Publish the CA, and load a renewed certificate. A failure is logged, and retried at the
        next check; until then the current certificate stays in use."""
        try:
            certificate = await self._source.current(self._wall())
            if self._publish is not None:
                await self._publish(certificate.ca_pem)
            self._load(certificate)
        except (KubeError, OSError, ValueError) as error:
            log.warning(
                "serving certificate not renewed or CA bundle not published",
                server=self._server,
                error=str(error),
            )

    def _load(self, certificate: ServingCertificate) -> None:
        if certificate == self._loaded:
            return
        # A mismatched pair would make a server unusable: try a context of its own first.
        certificate.pair.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        if isinstance(self._target, ssl.SSLContext):
            certificate.pair.load_into(self._target)
        else:
            self._target.load_pair(certificate.pair)
        self._loaded = certificate
        expires = certificate_expiry(certificate.pair.cert_pem)
        if self._metrics is not None:
            self._metrics.set_certificate_expiry(self._server, expires.timestamp())
        log.info("certificate loaded", server=self._server, expires=expires.isoformat())
