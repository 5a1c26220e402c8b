"""Addresses of targets. Pure."""

from dataclasses import dataclass
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 8001, "grpcs": 443}


class AddressError(ValueError):
    """An address that cannot be used; the message states what to write."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests are sent."""

    scheme: str
    """http, https, grpc or grpcs."""
    host: str
    port: int
    path: str = ""
    """With the query; empty if the address has none."""

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme in ("https", "grpcs")

    @property
    def is_grpc(self) -> bool:
        """Whether it is spoken to by gRPC."""
        return self.scheme.startswith("grpc")

    @property
    def authority(self) -> str:
        """Host and port as in a header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_address(text: str) -> Address:
    """`http://HOST:PORT/PATH`, `grpc://HOST:PORT`, with `s` for TLS; `AddressError`."""
    fix = "write http://HOST:PORT/PATH or grpc://HOST:PORT (https, grpcs for TLS)"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise AddressError(f"{text!r} is no address: {fix}") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise AddressError(f"{text!r} is no address: {fix}")
    if parts.username is not None or parts.password is not None:
        raise AddressError("an address has no user or password: give --header, or KILONOVA_API_KEY")
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if parts.scheme.startswith("grpc") and path.strip("/"):
        raise AddressError(f"{text!r} has a path, which gRPC has not: {fix}")
    if not path.isascii() or any(each.isspace() for each in path):
        raise AddressError(f"{text!r}: encode the path as %XX")
    return Address(
        parts.scheme,
        parts.hostname,
        port or _DEFAULT_PORTS[parts.scheme],
        "" if path == "/" else path,
    )
