"""Clusters of the control plane."""

from collections.abc import Sequence
from ipaddress import ip_address

from kilonova.serving.gateway.config.envoy_types import (
    build_explicit_http,
    build_extension,
    build_name_lookup,
    build_socket_address,
)
from kilonova.serving.gateway.config.upstream.circuit_breakers import build_unlimited
from kilonova.serving.gateway.model import ControlPlaneAddress, EnvoyResource

_CONNECT_TIMEOUT = "2s"
_KEEPALIVE: EnvoyResource = {"connection_keepalive": {"interval": "15s", "timeout": "10s"}}
"""A control plane that vanished without a word is noticed."""


def build_control_plane_cluster(
    name: str, control_plane: ControlPlaneAddress, port: int, *, http2: bool = True
) -> EnvoyResource:
    """A cluster of the control plane: gRPC, or HTTP/1.1 for answers over HTTP."""
    options = _KEEPALIVE if http2 else {}
    cluster: EnvoyResource = {
        "name": name,
        **build_name_lookup(),
        "connect_timeout": _CONNECT_TIMEOUT,
        "load_assignment": build_static_assignment(name, control_plane.host, port),
        "typed_extension_protocol_options": build_explicit_http(http2=http2, options=options),
        # Many requests may be held: the control plane decides when they are too many.
        "circuit_breakers": {"thresholds": [build_unlimited()]},
    }
    if control_plane.ca:
        authority = {"inline_string": control_plane.ca}
        cluster["transport_socket"] = build_upstream_tls(
            control_plane.host, authority, ("h2", "http/1.1")
        )
    return cluster


def build_static_assignment(cluster: str, host: str, port: int) -> EnvoyResource:
    """The `load_assignment` of a cluster with one host."""
    endpoint = {"endpoint": {"address": build_socket_address(host, port)}}
    return {"cluster_name": cluster, "endpoints": [{"lb_endpoints": [endpoint]}]}


def build_upstream_tls(
    host: str, authority: EnvoyResource, protocols: Sequence[str] = ()
) -> EnvoyResource:
    """The transport socket of a cluster whose certificate must be of the authority, and for its
    host, which may be an address."""
    is_address = _is_address(host)
    context: EnvoyResource = {
        "validation_context": {
            "trusted_ca": authority,
            "match_typed_subject_alt_names": [
                {"san_type": "IP_ADDRESS" if is_address else "DNS", "matcher": {"exact": host}}
            ],
        }
    }
    if protocols:
        context["alpn_protocols"] = list(protocols)
    return build_extension(
        "envoy.transport_sockets.tls",
        "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        **({} if is_address else {"sni": host}),
        common_tls_context=context,
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
