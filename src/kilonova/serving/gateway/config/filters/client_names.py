"""The name of a client that proved it by a certificate alone, and routes that depend on names."""

from collections.abc import Iterator

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.config.filters.lua_sources import build_lua_filter
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.request_headers import CLIENT_HEADER
from kilonova.serving.gateway.model import EnvoyResource


def build_name_of_certificate(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filter that takes the subject of its certificate for a client without another name."""
    tls = inputs.spec.gateway.tls
    if tls is None or not tls.client_ca_secret:
        return
    subject = {"key": CLIENT_HEADER, "value": "%DOWNSTREAM_PEER_SUBJECT%"}
    mutation = {"append": {"header": subject, "append_action": "ADD_IF_ABSENT"}}
    yield build_extension(
        "client-certificate",
        "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        mutations={"request_mutations": [mutation]},
    )


def build_routes_by_client(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filter that chooses the route again, now that the client has a name: filters of tokens
    and of certificates do not."""
    if inputs.routes_by_client() and not inputs.reads_bodies():
        yield build_lua_filter("routes_by_client", {})
