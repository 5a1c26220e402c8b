"""Clusters of the issuers of tokens, whose public keys are fetched."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from kilonova.api.serving import JwtProvider
from kilonova.serving.gateway.config.envoy_types import build_name_lookup
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.upstream.control_plane_clusters import (
    build_static_assignment,
    build_upstream_tls,
)
from kilonova.serving.gateway.model import EnvoyResource

_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""The public certificate authorities, in the image of Envoy and on this machine."""


def build_jwks_cluster_name(provider: JwtProvider) -> str:
    """The cluster of a provider."""
    return f"jwks/{provider.name}"


def build_jwks_clusters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The clusters of all providers whose keys are fetched."""
    for provider in inputs.spec.auth.jwt if inputs.spec.auth else ():
        if provider.jwks_uri is not None:
            yield _build_cluster(provider, provider.jwks_uri)


def _build_cluster(provider: JwtProvider, uri: str) -> EnvoyResource:
    url = urlsplit(uri)
    name = build_jwks_cluster_name(provider)
    host = url.hostname or ""
    is_secure = url.scheme == "https"
    port = url.port or (443 if is_secure else 80)
    cluster: EnvoyResource = {
        "name": name,
        **build_name_lookup(),
        "connect_timeout": "5s",
        "load_assignment": build_static_assignment(name, host, port),
    }
    if is_secure:
        cluster["transport_socket"] = build_upstream_tls(host, {"filename": _AUTHORITIES})
    return cluster
