"""The certificate that both ports of the control plane are served with."""

from collections.abc import Callable
from datetime import datetime

from kilonova.kube import Runnable
from kilonova.kube.serving.certificate_sources import CertificateSource, utc_now
from kilonova.kube.serving.certificate_watcher import CertificateWatcher, LiveCertificate
from kilonova.kube.serving.certificates import KeyPair
from kilonova.kube.serving.http_server import create_tls_context


class ControlPlaneCertificate:
    """Keeps a certificate up to date that several servers use. `load` it before they start."""

    def __init__(
        self, server: str, source: CertificateSource, wall: Callable[[], datetime] = utc_now
    ) -> None:
        self._watcher = CertificateWatcher(server, source, self, wall=wall)
        self._pair: KeyPair | None = None
        self._targets: list[LiveCertificate] = []

    @property
    def watcher(self) -> Runnable:
        """Renews it."""
        return self._watcher

    @property
    def ca_pem(self) -> str:
        """The authority that gateways must trust."""
        if self._pair is None:
            raise ValueError("no certificate is loaded: await ControlPlane.prepare() first")
        return self._watcher.ca_pem.decode()

    async def load(self) -> None:
        """Load it; `OSError` or `ValueError` if it is unusable."""
        await self._watcher.load()

    def load_pair(self, pair: KeyPair) -> None:
        """Use a certificate from now on."""
        self._pair = pair
        for target in self._targets:
            target.load_pair(pair)

    def add_target(self, target: LiveCertificate) -> None:
        """Let a server use it, from now on."""
        if self._pair is None:
            raise ValueError("no certificate is loaded: await ControlPlane.prepare() first")
        target.load_pair(self._pair)
        self._targets.append(target)


class TlsContextTarget:
    """A TLS context whose certificate is renewed."""

    def __init__(self) -> None:
        self.context = create_tls_context()

    def load_pair(self, pair: KeyPair) -> None:
        """Use a certificate from now on."""
        pair.load_into(self.context)
