"""ClusterLoadAssignments: the servers of a group, at one of their ports."""

from collections.abc import Iterable

from kilonova.serving.gateway.config.envoy_types import build_socket_address
from kilonova.serving.gateway.model import Endpoint, EndpointState, EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort

MODELS_KEY = "models"
"""The key in an endpoint's metadata `envoy.lb`: the models that the server has loaded."""

_HEALTH = {EndpointState.READY: "HEALTHY", EndpointState.DRAINING: "DRAINING"}


def build_load_assignment(
    cluster: str, port: ServerPort, endpoints: Iterable[Endpoint]
) -> EnvoyResource:
    """The endpoints of a cluster. A server that drains stays among them, as DRAINING: its requests
    go on, and it gets no further ones."""
    present = sorted(each for each in endpoints if get_port(each, port))
    assignment: EnvoyResource = {"cluster_name": cluster}
    if present:
        assignment["endpoints"] = [{"lb_endpoints": [_build_endpoint(e, port) for e in present]}]
    return assignment


def get_port(endpoint: Endpoint, port: ServerPort) -> int:
    """The number of a port of a server, 0 if it lacks it."""
    return endpoint.grpc_port if port == "grpc" else endpoint.http_port


def _build_endpoint(endpoint: Endpoint, port: ServerPort) -> EnvoyResource:
    host: EnvoyResource = {
        "address": build_socket_address(endpoint.address, get_port(endpoint, port)),
        "hostname": endpoint.pod,
    }
    if port == "grpc" and endpoint.http_port:
        # Both ports are of one server: it is asked for its health over HTTP, which all have.
        host["health_check_config"] = {"port_value": endpoint.http_port}
    result: EnvoyResource = {"endpoint": host, "health_status": _HEALTH[endpoint.state]}
    if endpoint.models is not None:
        result["metadata"] = {
            "filter_metadata": {"envoy.lb": {MODELS_KEY: sorted(endpoint.models)}}
        }
    return result
