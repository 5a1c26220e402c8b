"""The routes of a gateway: which group gets a request, and what is answered without one."""

import re
from collections.abc import Iterable, Iterator

from kilonova.api.serving import InferenceServiceSpec, Route, RouteBackend, ServerGroup
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.answers import build_closed_routes, build_unknown_routes
from kilonova.serving.gateway.config.balancing import build_hash_policies
from kilonova.serving.gateway.config.envoy_types import convert_duration
from kilonova.serving.gateway.config.request_headers import MODEL_HEADER
from kilonova.serving.gateway.config.retries import build_retry_policy
from kilonova.serving.gateway.model import EndpointState, EnvoyResource, GatewayState
from kilonova.serving.gateway.stat_names import SERVER_PORTS, ServerPort

ROUTES = "gateway"
"""The name of the route configuration."""


def build_routes(spec: InferenceServiceSpec, state: GatewayState) -> EnvoyResource:
    """The route configuration of all ports of the gateway.

    gRPC goes to the gRPC port of servers, everything else to their HTTP port: what a server is
    asked it is asked in its language, at whichever port of the gateway the client called.
    """
    routes = (
        build_closed_routes()
        if state.secrets.problems
        else [*_build_all(spec, state), *build_unknown_routes()]
    )
    return {
        "name": ROUTES,
        "virtual_hosts": [{"name": ROUTES, "domains": ["*"], "routes": routes}],
        # Clusters come before routes, and go after them.
        "validate_clusters": False,
    }


def _build_all(spec: InferenceServiceSpec, state: GatewayState) -> Iterator[EnvoyResource]:
    default = Route(backends=(RouteBackend(spec.servers[0].name),))
    for route in (*spec.routes, default):
        for port in SERVER_PORTS:
            built = _build_route(spec, state, route, port)
            if built is not None:
                yield built


def _build_route(
    spec: InferenceServiceSpec, state: GatewayState, route: Route, port: ServerPort
) -> EnvoyResource | None:
    groups = {group.name: group for group in spec.servers}
    backends = [
        each for each in route.backends if each.weight and has_port(groups[each.server], port)
    ]
    if not backends:
        return None
    ready = [each for each in backends if is_ready(state, each.server)]
    action: EnvoyResource = _build_backends(ready or backends, port) | {
        "timeout": convert_duration(
            spec.gateway.timeout if route.timeout is None else route.timeout
        ),
        "hash_policy": build_hash_policies(spec.gateway.load_balancing),
        "cluster_not_found_response_code": "SERVICE_UNAVAILABLE",
    }
    retries = build_retry_policy(spec.gateway.retries)
    if retries is not None:
        action["retry_policy"] = retries
    return {"match": _build_match(route, port), "route": action}


def _build_backends(backends: Iterable[RouteBackend], port: ServerPort) -> EnvoyResource:
    clusters = [
        {
            "name": stat_names.build_upstream_cluster(each.server, port),
            "weight": each.weight,
        }
        for each in backends
    ]
    if len(clusters) == 1:
        return {"cluster": clusters[0]["name"]}
    return {"weighted_clusters": {"clusters": clusters}}


def _build_match(route: Route, port: ServerPort) -> EnvoyResource:
    match: EnvoyResource = {"prefix": "/"}
    if port == "grpc":
        match["grpc"] = {}
    headers: list[EnvoyResource] = []
    if route.models:
        headers.append({"name": MODEL_HEADER, "string_match": match_any(route.models)})
    for header in route.headers:
        condition: EnvoyResource = (
            {"string_match": {"exact": header.value}} if header.value else {"present_match": True}
        )
        headers.append({"name": header.name, **condition})
    if headers:
        match["headers"] = headers
    return match


def match_any(values: Iterable[str]) -> EnvoyResource:
    """A `StringMatcher` of any of some values."""
    values = list(values)
    if len(values) == 1:
        return {"exact": values[0]}
    return {"safe_regex": {"regex": "|".join(re.escape(each) for each in values)}}


def has_port(group: ServerGroup, port: ServerPort) -> bool:
    """Whether servers of the group have the port."""
    return bool(group.ports.grpc if port == "grpc" else group.ports.http)


def is_ready(state: GatewayState, group: str) -> bool:
    """Whether any server of the group takes requests."""
    return any(each.state is EndpointState.READY for each in state.endpoints.get(group, ()))
