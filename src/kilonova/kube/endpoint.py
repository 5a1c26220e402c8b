"""Where an API server is, whom to trust there, and the certificate we show."""

import ssl
from dataclasses import dataclass
from tempfile import NamedTemporaryFile


@dataclass(frozen=True, slots=True)
class Trust:
    """Which servers are believed: those of a CA (the system's if empty), or any at all."""

    authority: bytes = b""
    insecure: bool = False

    def context(self, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        """A context that trusts so and shows this client certificate; `SSLError` if it is bad."""
        if self.insecure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.authority:
            context = ssl.create_default_context(cadata=self.authority.decode())
        else:
            context = ssl.create_default_context()
        # Python 3.13 refuses CAs without a key identifier; the CAs of many clusters have none.
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
    """Where a server is, and how it is known to be the right one.

    `headers` go with every request; a name may repeat.
    """

    server: str
    trust: Trust
    proxy: str = ""
    tls_server_name: str = ""
    headers: tuple[tuple[str, str], ...] = ()
