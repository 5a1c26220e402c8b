"""The whole configuration of the gateways of a service."""

from collections.abc import Iterator

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.inputs import GatewayInputs, has_port
from kilonova.serving.gateway.config.listener.downstream_tls import build_secrets
from kilonova.serving.gateway.config.listener.listeners import build_listeners
from kilonova.serving.gateway.config.listener.telemetry import build_tracing_cluster
from kilonova.serving.gateway.config.routing.routes import build_routes
from kilonova.serving.gateway.config.routing.service_answers import build_answer_clusters
from kilonova.serving.gateway.config.upstream.control_plane_clusters import (
    build_control_plane_cluster,
)
from kilonova.serving.gateway.config.upstream.endpoints import build_load_assignment
from kilonova.serving.gateway.config.upstream.jwks_clusters import build_jwks_clusters
from kilonova.serving.gateway.config.upstream.server_clusters import build_server_cluster
from kilonova.serving.gateway.model import EnvoyResource, GatewayConfig, GatewayState, ServiceKey
from kilonova.serving.gateway.stat_names import SERVER_PORTS


def render_gateway(
    key: ServiceKey, spec: InferenceServiceSpec, state: GatewayState
) -> GatewayConfig:
    """Envoy's configuration for a service in some state.

    Its clusters, listeners and routes only change with the service, and when a group gets its first
    server or loses its last; a server that comes or goes changes its endpoints alone, unless the
    number of requests in a queue depends on it.
    """
    inputs = GatewayInputs(key, spec, state)
    clusters = {each["name"]: each for each in _build_clusters(inputs)}
    return GatewayConfig(
        listeners=build_listeners(inputs),
        routes=build_routes(inputs),
        clusters=clusters,
        secrets=build_secrets(inputs),
        endpoints={each["cluster_name"]: each for each in _build_assignments(inputs)},
    )


def _build_clusters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    control_plane = inputs.state.control_plane
    for group in inputs.spec.servers:
        servers = len(inputs.list_ready(group.name))
        for port in SERVER_PORTS:
            if has_port(group, port):
                yield build_server_cluster(inputs.spec, group, port, servers)
        hold = stat_names.build_hold_cluster(group.name)
        yield build_control_plane_cluster(hold, control_plane, control_plane.port)
    if control_plane.http_port:
        yield build_control_plane_cluster(
            stat_names.CONTROL_PLANE_HTTP_CLUSTER,
            control_plane,
            control_plane.http_port,
            http2=False,
        )
    yield from build_answer_clusters(inputs)
    yield from build_jwks_clusters(inputs)
    yield from build_tracing_cluster(inputs)


def _build_assignments(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    for group in inputs.spec.servers:
        endpoints = inputs.state.endpoints.get(group.name, ())
        for port in SERVER_PORTS:
            if has_port(group, port):
                name = stat_names.build_upstream_cluster(group.name, port)
                yield build_load_assignment(name, port, endpoints)
