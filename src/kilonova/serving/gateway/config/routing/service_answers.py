"""Requests that are answered for the whole service, by the control plane instead of a server.

Which models there are, and their statistics, is a question about all servers. If the control plane
is away, a server answers for itself. What would change one server alone is refused.
"""

from collections.abc import Iterator

from kilonova.api.durations import parse_duration
from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import build_header, build_typed
from kilonova.serving.gateway.config.filters.hold import build_hold
from kilonova.serving.gateway.config.inputs import GatewayInputs, has_port
from kilonova.serving.gateway.config.routing.refusals import build_refusal
from kilonova.serving.gateway.control_plane_calls import build_call_headers
from kilonova.serving.gateway.model import EnvoyResource
from kilonova.serving.gateway.stat_names import ServerPort

_SERVICE = "/inference.GRPCInferenceService"
_INDEX = f"{_SERVICE}/RepositoryIndex"
_GRPC_PATHS = (_INDEX, f"{_SERVICE}/ModelStatistics", f"{_SERVICE}/ServerMetadata")
_GRPC_LOADING = (f"{_SERVICE}/RepositoryModelLoad", f"{_SERVICE}/RepositoryModelUnload")

_HTTP_INDEX: EnvoyResource = {"path": "/v2/repository/index"}
_HTTP_MATCHES: tuple[EnvoyResource, ...] = (
    _HTTP_INDEX,
    {"path": "/v2"},
    {"path": "/v2/models/stats"},
    {"safe_regex": {"regex": "/v2/models/[^/]+(/versions/[^/]+)?/stats"}},
)
_HTTP_LOADING: EnvoyResource = {
    "safe_regex": {"regex": "/v2/repository/models/[^/]+/(load|unload)"}
}
_GRPC_SETTINGS = (f"{_SERVICE}/LogSettings", f"{_SERVICE}/TraceSetting")
_HTTP_SETTINGS: tuple[EnvoyResource, ...] = (
    {"path": "/v2/logging"},
    {"safe_regex": {"regex": "/v2/(models/[^/]+/(versions/[^/]+/)?)?trace/setting"}},
)
_GRPC_HEALTH = (f"{_SERVICE}/ServerLive", f"{_SERVICE}/ServerReady")
_HTTP_HEALTH = ("/v2/health/live", "/v2/health/ready")
_OPENAI_MODELS: EnvoyResource = {
    "path": "/v1/models",
    "headers": [{"name": ":method", "string_match": {"exact": "GET"}}],
}

LOADING_MESSAGE = (
    "models are loaded and unloaded by the service, on the servers that it chooses: "
    "see spec.servers[].modelPlacement"
)
SETTINGS_MESSAGE = (
    "settings of logs and traces are those of one server, and clients do not change them: "
    "see spec.servers[].args"
)


def build_answer_routes(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The routes of such requests."""
    protocols = {each.protocol for each in inputs.spec.servers}
    if "V2" in protocols:
        yield from _build_refused(inputs)
        for path in _GRPC_PATHS:
            yield _build_answer(inputs, {"path": path, "grpc": {}}, "grpc")
        for path in _GRPC_LOADING:
            yield build_refusal({"path": path, "grpc": {}}, 403, LOADING_MESSAGE)
        for path in _GRPC_SETTINGS:
            yield build_refusal({"path": path, "grpc": {}}, 403, SETTINGS_MESSAGE)
        for match in _HTTP_MATCHES:
            yield _build_answer(inputs, match, "http")
        yield from _build_health_answers(inputs)
        yield build_refusal(_HTTP_LOADING, 403, LOADING_MESSAGE)
        for match in _HTTP_SETTINGS:
            yield build_refusal(match, 403, SETTINGS_MESSAGE)
    if "OpenAI" in protocols:
        yield _build_answer(inputs, _OPENAI_MODELS, "http")


def build_answer_cluster(port: ServerPort) -> str:
    """The cluster that answers: the control plane, else a server."""
    return f"answers/{port}"


def build_answer_clusters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The clusters that answer."""
    for port in ("grpc", "http"):
        clusters = [
            stat_names.build_upstream_cluster(group.name, port)
            for group in inputs.spec.servers
            if group.protocol != "HTTP" and has_port(group, port)
        ]
        if port == "grpc" or inputs.state.control_plane.http_port:
            clusters.insert(0, _CONTROL_PLANE[port])
        yield {
            "name": build_answer_cluster(port),
            "connect_timeout": "1s",
            "lb_policy": "CLUSTER_PROVIDED",
            "cluster_type": {
                "name": "envoy.clusters.aggregate",
                "typed_config": build_typed(
                    "envoy.extensions.clusters.aggregate.v3.ClusterConfig", clusters=clusters
                ),
            },
        }


_CONTROL_PLANE = {
    "grpc": stat_names.CONTROL_PLANE_CLUSTER,
    "http": stat_names.CONTROL_PLANE_HTTP_CLUSTER,
}


def _build_refused(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """While the load is high, no further jobs: they ask for the repository index first."""
    load = inputs.spec.limits.load
    if load is None or not load.job_admission or not inputs.state.overloaded:
        return
    message = "the load is above its limit: no further jobs for now"
    matches: tuple[EnvoyResource, ...] = ({"path": _INDEX, "grpc": {}}, _HTTP_INDEX)
    for match in matches:
        yield build_refusal(match, 429, message, retry_after=parse_duration(load.retry_after))


def _build_health_answers(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """A question about the state of an idle service does not start it."""
    if _find_starting(inputs):
        for path in _GRPC_HEALTH:
            yield _build_answer(inputs, {"path": path, "grpc": {}}, "grpc", starts=False)
        for path in _HTTP_HEALTH:
            yield _build_answer(inputs, {"path": path}, "http", starts=False)


def _find_starting(inputs: GatewayInputs) -> str:
    """The group that starts when the service is asked, if no server is ready; else nothing."""
    groups = [each.name for each in inputs.spec.servers if each.protocol != "HTTP"]
    if any(inputs.is_ready(each) for each in groups):
        return ""
    return next((each for each in groups if inputs.is_starting(each)), "")


def _build_answer(
    inputs: GatewayInputs, match: EnvoyResource, port: ServerPort, *, starts: bool = True
) -> EnvoyResource:
    headers = build_call_headers(inputs.key, inputs.state.token)
    route: EnvoyResource = {
        "match": match,
        "route": {
            "cluster": build_answer_cluster(port),
            "timeout": "30s",
            "retry_policy": {
                "retry_on": "connect-failure,refused-stream,reset,unavailable",
                "num_retries": 2,
                "retry_priority": {
                    "name": "envoy.retry_priorities.previous_priorities",
                    "typed_config": build_typed(
                        "envoy.extensions.retry.priority.previous_priorities.v3"
                        ".PreviousPrioritiesConfig",
                        update_frequency=1,
                    ),
                },
            },
        },
        "request_headers_to_add": [build_header(*each) for each in headers.items()],
    }
    starting = _find_starting(inputs) if starts else ""
    if starting:
        # Who asks for the models of a service at rest wants to use them: it is started.
        route["typed_per_filter_config"] = build_hold(inputs, starting)
    return route
