"""The address of an API server, the CA that it is verified with, and the client certificate."""

import ssl
from dataclasses import dataclass
from tempfile import NamedTemporaryFile


@dataclass(frozen=True, slots=True)
class TlsClientConfig:
    """How servers are verified: by a CA (the system's if empty), or not at all."""

    ca_data: bytes = b""
    insecure: bool = False

    def build_context(self, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        """Build a TLS context with this client certificate; raises `SSLError` if it is invalid."""
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_data:
            context = ssl.create_default_context(cadata=self.ca_data.decode())
        else:
            context = ssl.create_default_context()
        # Python 3.13 rejects CAs without a key identifier; the CAs of many clusters have none.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(["http/1.1"])
        if certificate:
            # OpenSSL reads certificates from files only.
            with NamedTemporaryFile() as pem:
                pem.write(certificate + b"\n" + key)
                pem.flush()
                context.load_cert_chain(pem.name)
        return context


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a server, and how it is verified.

    `headers` are added to every request; a name may repeat.
    """

    server: str
    tls: TlsClientConfig
    proxy_url: str = ""
    tls_server_name: str = ""
    headers: tuple[tuple[str, str], ...] = ()
