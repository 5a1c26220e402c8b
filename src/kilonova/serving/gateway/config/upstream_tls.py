"""TLS towards the control plane."""

from ipaddress import ip_address

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.model import ControlPlaneAddress, EnvoyResource


def build_upstream_tls(control_plane: ControlPlaneAddress) -> EnvoyResource:
    """The transport socket of a cluster of the control plane: its certificate must be of the
    authority, and for its host name."""
    is_address = _is_address(control_plane.host)
    return build_extension(
        "envoy.transport_sockets.tls",
        "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        **({} if is_address else {"sni": control_plane.host}),
        common_tls_context={
            "alpn_protocols": ["h2", "http/1.1"],
            "validation_context": {
                "trusted_ca": {"inline_string": control_plane.ca},
                "match_typed_subject_alt_names": [
                    {
                        "san_type": "IP_ADDRESS" if is_address else "DNS",
                        "matcher": {"exact": control_plane.host},
                    }
                ],
            },
        },
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
