"""The certificate that the extender shows, and whose certificates it wants to see.

Looked after once a minute: a renewed one is loaded into the live context, so that connections that
exist go on and later ones see it.
"""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from kilonova.kube import KubeError
from kilonova.kube.admission.sources import CertificateSource, Credentials, utc_now
from kilonova.kube.logging import get_logger

_log = get_logger(__name__)


class LiveCertificate:
    """A part: keeps `context` up to date with a source.

    With `client_ca`, a file of authorities, only clients with a certificate of theirs are let in.
    """

    name = "certificate"

    def __init__(
        self,
        source: CertificateSource,
        client_ca: Path | None = None,
        *,
        check_seconds: float = 60.0,
        wall: Callable[[], datetime] = utc_now,
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        self._source = source
        self._check_seconds = check_seconds
        self._wall = wall
        self._loaded: Credentials | None = None

    async def load(self) -> None:
        """Takes what the source has now; `OSError` or `ValueError` where it is unusable."""
        credentials = await self._source.current(self._wall())
        if credentials == self._loaded:
            return
        # The ssl module reads from files only; these live for the time of the call.
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            credentials.pair.write(cert, key)
            # A pair that does not fit would leave a context useless: not the live one first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
            self.context.load_cert_chain(cert, key)
        self._loaded = credentials
        _log.info("certificate loaded")

    async def run(self) -> None:
        """Looks for a renewed certificate, for ever; one that is unusable is reported and left."""
        while True:
            await asyncio.sleep(self._check_seconds)
            try:
                await self.load()
            except (KubeError, OSError, ValueError) as error:
                _log.warning("the certificate could not be renewed", error=str(error))
