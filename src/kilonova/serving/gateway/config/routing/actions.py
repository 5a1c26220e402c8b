"""How a request is sent to servers: to which clusters, how long, how often."""

from kilonova.api.durations import parse_duration
from kilonova.api.serving import Route, RouteBackend
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import convert_duration
from kilonova.serving.gateway.config.filters.hold import build_hold
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.config.routing.retries import build_retry_policy
from kilonova.serving.gateway.config.upstream.balancing import build_hash_policies
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort


def build_action(
    inputs: GatewayInputs, route: Route, port: ServerPort, backends: list[RouteBackend]
) -> EnvoyResource:
    """The `route` of a route to some groups."""
    gateway = inputs.spec.gateway
    action = _build_clusters(inputs, port, backends)
    action["timeout"] = convert_duration(_get_timeout(inputs, route))
    hashes = build_hash_policies(gateway.load_balancing)
    if hashes:
        action["hash_policy"] = hashes
    retries = build_retry_policy(gateway.retries)
    if retries is not None:
        action["retry_policy"] = retries
    return action


def has_timeout(inputs: GatewayInputs, route: Route) -> bool:
    """Whether the time for a response is limited."""
    return parse_duration(_get_timeout(inputs, route)) > 0


def _get_timeout(inputs: GatewayInputs, route: Route) -> str:
    return inputs.spec.gateway.timeout if route.timeout is None else route.timeout


def _build_clusters(
    inputs: GatewayInputs, port: ServerPort, backends: list[RouteBackend]
) -> EnvoyResource:
    if len(backends) == 1:
        return {"cluster": stat_names.build_upstream_cluster(backends[0].server, port)}
    clusters: list[EnvoyResource] = []
    for each in backends:
        cluster: EnvoyResource = {
            "name": stat_names.build_upstream_cluster(each.server, port),
            "weight": each.weight,
        }
        if inputs.is_starting(each.server):
            # Its share of the requests is held: that is what starts it.
            cluster["typed_per_filter_config"] = build_hold(inputs, each.server)
        clusters.append(cluster)
    return {"weighted_clusters": {"clusters": clusters}}
