"""The whole configuration of the gateways of a service."""

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.clusters import (
    build_control_plane_cluster,
    build_server_cluster,
)
from kilonova.serving.gateway.config.endpoints import build_load_assignment
from kilonova.serving.gateway.config.listeners import build_listeners
from kilonova.serving.gateway.config.routes import ROUTES, build_routes, has_port
from kilonova.serving.gateway.model import EnvoyResource, GatewayConfig, GatewayState, ServiceKey
from kilonova.serving.gateway.stat_names import SERVER_PORTS


def render_gateway(
    key: ServiceKey, spec: InferenceServiceSpec, state: GatewayState
) -> GatewayConfig:
    """Envoy's configuration for a service in some state.

    Its clusters, listeners and routes only change with the service, and when a group gets its first
    server or loses its last; a server that comes or goes changes its endpoints alone.
    """
    del key
    clusters: dict[str, EnvoyResource] = {}
    endpoints: dict[str, EnvoyResource] = {}
    for group in spec.servers:
        for port in SERVER_PORTS:
            if not has_port(group, port):
                continue
            name = stat_names.build_upstream_cluster(group.name, port)
            clusters[name] = build_server_cluster(spec, group, port)
            endpoints[name] = build_load_assignment(name, port, state.endpoints.get(group.name, ()))
        hold = stat_names.build_hold_cluster(group.name)
        clusters[hold] = build_control_plane_cluster(
            hold, state.control_plane, state.control_plane.port
        )
    return GatewayConfig(
        listeners=build_listeners(spec, state),
        routes={ROUTES: build_routes(spec, state)},
        clusters=clusters,
        endpoints=endpoints,
    )
