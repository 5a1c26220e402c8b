"""Syntax of what goes into the configuration of Envoy and into pods: each check returns why a text
is invalid, or None. Pure.

Envoy rejects most of it, too: but then all of the configuration, and what it had stays in use.
"""

import re
from urllib.parse import urlsplit

_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_has_control = re.compile(r"[\x00-\x1f\x7f]").search
_is_path = re.compile(r"/[!-\"$-~]*").fullmatch
_is_host = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]").fullmatch
_has_odd_character = re.compile(r"[^!-~]").search
_is_port = re.compile(r"[0-9]{1,5}").fullmatch
_FRAMING = frozenset(
    {"connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"}
)
_OWN_PREFIX = "x-kilonova-"
_MAX_PORT = 65535


def check_header_name(name: str) -> str | None:
    """The name of a header, or `:authority`."""
    if _is_token(name) or name == ":authority":
        return None
    return "must be the name of a header, such as x-session: letters, digits and '-'"


def check_key_header(name: str) -> str | None:
    """The name of a header that clients send a secret in, and that servers do not get."""
    if not _is_token(name):
        return "must be the name of a header, such as x-api-key: letters, digits and '-'"
    lower = name.lower()
    if lower in _FRAMING or lower.startswith(_OWN_PREFIX):
        return "has a meaning of its own: choose another header, such as x-api-key"
    return None


def check_printable(text: str) -> str | None:
    """A text without control characters."""
    return "must not have control characters" if _has_control(text) else None


def check_path(path: str) -> str | None:
    """The path of a request."""
    if _is_path(path):
        return None
    return (
        "must start with '/', and have no spaces and nothing that URLs escape, such as /health or "
        "/caf%C3%A9"
    )


def check_jwks_uri(url: str) -> str | None:
    """Where the keys of an issuer are."""
    return _check_url(url, "https://issuer.example.com/keys")


def check_prometheus_url(url: str) -> str | None:
    """The address of a Prometheus."""
    return _check_url(url, "http://prometheus.monitoring:9090")


def check_endpoint(endpoint: str) -> str | None:
    """`HOST:PORT`, with or without a scheme or a port."""
    address = endpoint.rpartition("//")[2].rstrip("/")
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, "1"
    is_port = _is_port(port) and 0 < int(port) <= _MAX_PORT
    if is_port and _is_host(host):
        return None
    return "must be HOST:PORT, such as collector.monitoring:4317"


def check_sub_path(path: str) -> str | None:
    """A folder in a volume."""
    if path.startswith("/") or ".." in path.split("/"):
        return "must be relative to the volume, and have no '..'"
    return None


def _check_url(url: str, example: str) -> str | None:
    """`http://HOST[:PORT]/PATH`, or https."""
    problem = f"must be a URL with a host, such as {example}"
    if not url.startswith(("http://", "https://")):
        return problem
    if _has_odd_character(url):
        return f"{problem}; what is not ASCII has to be escaped"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"{problem} ({error})"
    host = parts.netloc.removesuffix("" if port is None else f":{port}")
    return None if _is_host(host) and port != 0 else problem
