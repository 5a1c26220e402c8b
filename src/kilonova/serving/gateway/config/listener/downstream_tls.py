"""TLS of clients: the certificate of the gateway, and the authority of theirs, by SDS."""

from kilonova.serving.gateway.config.envoy_types import ADS, build_extension
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource

_CERTIFICATE, _CLIENT_CA = "certificate", "client-ca"


def build_transport_socket(inputs: GatewayInputs) -> EnvoyResource | None:
    """The transport socket of the listener; None without TLS.

    Without its certificate the gateway refuses connections: it never falls back to plain text.
    """
    tls = inputs.spec.gateway.tls
    if tls is None:
        return None
    context: EnvoyResource = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificate_sds_secret_configs": [_build_reference(_CERTIFICATE)],
    }
    if tls.client_ca_secret:
        context["validation_context_sds_secret_config"] = _build_reference(_CLIENT_CA)
    return build_extension(
        "envoy.transport_sockets.tls",
        "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        common_tls_context=context,
        require_client_certificate=bool(tls.client_ca_secret),
    )


def build_secrets(inputs: GatewayInputs) -> dict[str, EnvoyResource]:
    """The secrets that it refers to; a renewed certificate changes only these."""
    material = inputs.state.secrets.tls
    if inputs.spec.gateway.tls is None or material is None:
        return {}
    secrets: dict[str, EnvoyResource] = {
        _CERTIFICATE: {
            "name": _CERTIFICATE,
            "tls_certificate": {
                "certificate_chain": {"inline_string": material.certificate},
                "private_key": {"inline_string": material.private_key},
            },
        }
    }
    if material.client_ca:
        secrets[_CLIENT_CA] = {
            "name": _CLIENT_CA,
            "validation_context": {"trusted_ca": {"inline_string": material.client_ca}},
        }
    return secrets


def _build_reference(name: str) -> EnvoyResource:
    return {"name": name, "sds_config": ADS}
