"""Certificates of gRPC servers and clients, renewed while they run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from kilonova.kube.observability.structured_logging import get_logger

if TYPE_CHECKING:
    from kilonova.kube.serving.certificates import KeyPair  # loads cryptography

_log = get_logger(__name__)


class LiveServerCredentials:
    """The certificate of a server, and the CA that its clients' certificates must be signed by.

    It is the target of a `CertificateWatcher`, which loads the first certificate and renewed ones.
    gRPC asks at every handshake, in a thread of its own; open connections continue. With
    `client_ca`, a file of CA certificates, only clients with a certificate of one of them are
    accepted (mutual TLS). A changed file is read at the next handshake.
    """

    def __init__(self, client_ca: Path | None = None) -> None:
        self._client_ca = client_ca
        self._pair: KeyPair | None = None
        self._served: tuple[KeyPair, int] | None = None

    def load_pair(self, pair: KeyPair) -> None:
        """Use a certificate from the next handshake on."""
        self._pair = pair

    def build(self) -> grpc.ServerCredentials:
        """The credentials for a port. A certificate must have been loaded."""
        configuration = self._read_if_changed()
        if configuration is None:
            raise ValueError("no certificate is loaded: await CertificateWatcher.load() first")
        return grpc.dynamic_ssl_server_credentials(
            configuration,
            self._fetch,  # pyright: ignore[reportArgumentType]  # None means unchanged
            require_client_authentication=self._client_ca is not None,
        )

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        try:
            return self._read_if_changed()
        except OSError as error:
            _log.warning(
                "CA of clients not read, the former one stays in use",
                file=str(self._client_ca),
                error=str(error),
            )
            return None

    def _read_if_changed(self) -> grpc.ServerCertificateConfiguration | None:
        pair, client_ca = self._pair, self._client_ca
        if pair is None:
            return None
        version = os.stat(client_ca).st_mtime_ns if client_ca is not None else 0
        if self._served == (pair, version):
            return None
        configuration = grpc.ssl_server_certificate_configuration(
            [(pair.key_pem, pair.cert_pem)],
            root_certificates=client_ca.read_bytes() if client_ca is not None else None,
        )
        self._served = pair, version
        return configuration


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a client verifies servers, and authenticates itself.

    `ca` None is the CA bundle of the system; `cert` and `key` are for mutual TLS; `server_name` is
    the name in the server's certificate where it is not the host of the target.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("a client certificate needs both cert and key")

    def version(self) -> tuple[int, ...]:
        """Changes with the files; OSError if one cannot be read."""
        files = (self.ca, self.cert, self.key)
        return tuple(os.stat(file).st_mtime_ns for file in files if file is not None)

    def build(self) -> grpc.ChannelCredentials:
        """The credentials for a channel, from the files as they are now."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.ca.read_bytes() if self.ca is not None else None,
            private_key=self.key.read_bytes() if self.key is not None else None,
            certificate_chain=self.cert.read_bytes() if self.cert is not None else None,
        )
