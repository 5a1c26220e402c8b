"""The routes of a gateway: which group gets a request, and what is answered without one."""

from collections.abc import Iterator

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Route, RouteBackend
from kilonova.serving.gateway.config.filters.authentication import (
    build_key_digests,
    build_no_authentication,
)
from kilonova.serving.gateway.config.filters.grpc_status import build_grpc_status
from kilonova.serving.gateway.config.filters.hold import (
    build_hold,
    build_no_hold,
    build_unused_hold,
)
from kilonova.serving.gateway.config.inputs import GatewayInputs, has_port, list_placed_models
from kilonova.serving.gateway.config.routing.actions import build_action, has_timeout
from kilonova.serving.gateway.config.routing.matches import build_match, select_model
from kilonova.serving.gateway.config.routing.refusals import (
    build_closed_routes,
    build_refusal,
)
from kilonova.serving.gateway.config.routing.service_answers import build_answer_routes
from kilonova.serving.gateway.config.upstream.circuit_breakers import can_overflow
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import SERVER_PORTS, ServerPort

ROUTES, ROUTES_WITH_KEYS = "gateway", "gateway-keys"
"""The names of the route configuration. A listener that begins or ceases to check API keys refers
to the other name: Envoy uses it when it has its routes, which have the digests of the keys, and
never without them."""

_RETRY_UNAVAILABLE_SECONDS = 5.0
_REPEATED_BYTES = 16 << 20
"""The size of a request that is kept until its answer begins, to be sent to another server."""
_READ_BYTES = 256 << 20
"""The same where a body has to be read before it is sent on."""


def select_routes(inputs: GatewayInputs) -> str:
    """The name of the route configuration that the listener refers to."""
    auth = inputs.spec.auth
    return ROUTES if auth is None or auth.api_keys is None else ROUTES_WITH_KEYS


def build_routes(inputs: GatewayInputs) -> dict[str, EnvoyResource]:
    """The route configuration of all ports of the gateway, by name.

    With API keys it has both names: connections of a listener without them are still routed.

    gRPC goes to the gRPC port of servers, everything else to their HTTP port: a server is asked in
    its language, at whichever port of the gateway the client called.
    """
    if inputs.state.secrets.problems:
        routes = build_closed_routes()
        filters = build_no_authentication(inputs)
    else:
        filters = build_key_digests(inputs)
        routes = [
            *build_answer_routes(inputs),
            *_build_group_routes(inputs),
        ]
        # A call passes the routes in their order: not those of HTTP, which have patterns.
        routes.sort(key=lambda each: "grpc" not in each["match"])
    host: EnvoyResource = {"name": ROUTES, "domains": ["*"], "routes": routes}
    filters |= build_no_hold() if inputs.changes_routes() else build_unused_hold()
    host["request_body_buffer_limit"] = _get_buffer_limit(inputs)
    host["typed_per_filter_config"] = filters
    names = (ROUTES, select_routes(inputs))
    return {name: {"name": name, "virtual_hosts": [host]} for name in names}


def _get_buffer_limit(inputs: GatewayInputs) -> int:
    largest = inputs.spec.limits.max_body_bytes or _READ_BYTES
    return largest if inputs.reads_bodies() else min(largest, _REPEATED_BYTES)


def _build_group_routes(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    default = Route(backends=(RouteBackend(inputs.spec.servers[0].name),))
    for route in (*inputs.spec.routes, default):
        for port in SERVER_PORTS:
            yield from _build_port_routes(inputs, route, port)


def _build_port_routes(
    inputs: GatewayInputs, route: Route, port: ServerPort
) -> Iterator[EnvoyResource]:
    match = build_match(route, port)
    backends = [
        each
        for each in route.backends
        if each.weight and has_port(inputs.get_group(each.server), port)
    ]
    if not backends:
        names = ", ".join(each.server for each in route.backends)
        language = "gRPC" if port == "grpc" else "HTTP"
        yield build_refusal(match, 404, f"no server of {names} speaks {language}")
        return
    yield from _build_model_routes(inputs, route, backends, match)
    yield _build_backend_route(inputs, route, port, backends, match)


def _build_model_routes(
    inputs: GatewayInputs, route: Route, backends: list[RouteBackend], match: EnvoyResource
) -> Iterator[EnvoyResource]:
    """Routes of models that no server has loaded: their requests are held until one has."""
    if len(backends) != 1:
        return
    group = backends[0].server
    ready = inputs.list_ready(group)
    if not ready and not inputs.is_starting(group):
        return  # refused, like any other request of the group
    # A server that starts is ready before it has loaded a model: that is waited for, too.
    loaded = {model for each in ready if each.models is not None for model in each.models}
    if any(each.models is None for each in ready):
        return
    for model in list_placed_models(inputs.get_group(group)):
        if model not in loaded and (not route.models or model in route.models):
            port: ServerPort = "grpc" if "grpc" in match else "http"
            action = build_action(inputs, route, port, backends)
            hold = build_hold(inputs, group, model)
            yield {
                "match": select_model(match, model),
                "route": action,
                "typed_per_filter_config": hold,
            }


def _build_backend_route(
    inputs: GatewayInputs,
    route: Route,
    port: ServerPort,
    backends: list[RouteBackend],
    match: EnvoyResource,
) -> EnvoyResource:
    names = ", ".join(each.server for each in backends)
    available = [
        each for each in backends if inputs.is_ready(each.server) or inputs.is_starting(each.server)
    ]
    if not available:
        message = f"no server of {names} is ready, and none is about to be"
        return build_refusal(match, 503, message, retry_after=_RETRY_UNAVAILABLE_SECONDS)
    load = inputs.spec.limits.load
    if load is not None and not load.job_admission:
        accepting = [each for each in available if each.server not in inputs.state.overloaded]
        if not accepting:
            message = f"the load of {names} is above its limit"
            return build_refusal(match, 429, message, retry_after=parse_duration(load.retry_after))
        available = accepting
    built: EnvoyResource = {
        "match": match,
        "route": build_action(inputs, route, port, available),
    }
    filters: dict[str, EnvoyResource] = {}
    if has_timeout(inputs, route) or any(
        can_overflow(inputs.get_group(each.server)) for each in available
    ):
        filters |= build_grpc_status()
    if len(available) == 1 and inputs.is_starting(available[0].server):
        filters |= build_hold(inputs, available[0].server)
    if filters:
        built["typed_per_filter_config"] = filters
    return built
