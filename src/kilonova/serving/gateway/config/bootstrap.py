"""The bootstrap of a gateway: its control plane and its statistics, and nothing of traffic."""

from typing import Any

from kilonova.serving.gateway import stat_names
from kilonova.serving.gateway.config.envoy_types import (
    build_extension,
    build_socket_address,
    build_typed,
)
from kilonova.serving.gateway.config.statistics import build_stats_config
from kilonova.serving.gateway.config.upstream.control_plane_clusters import (
    build_control_plane_cluster,
)
from kilonova.serving.gateway.control_plane_calls import format_service
from kilonova.serving.gateway.model import ControlPlaneAddress, EnvoyResource, ServiceKey

ADMIN_FOLDER = "/run/kilonova-gateway"
"""A folder of the pod alone that Envoy may write (an emptyDir): of its administration's socket."""

_MAX_CONNECTIONS = 50_000
_ADMIN_CLUSTER = "admin"
_NO_LIMIT = 2**32 - 1


def render_bootstrap(
    key: ServiceKey,
    control_plane: ControlPlaneAddress,
    token: str,
    stats_port: int,
    admin_folder: str = ADMIN_FOLDER,
) -> dict[str, Any]:
    """The bootstrap of the gateways of a service, as JSON (and so YAML).

    A gateway is started with `build_arguments`: they name the pod, the rest is here.
    """
    admin = {"pipe": {"path": f"{admin_folder}/admin.sock", "mode": 0o600}}
    return {
        "node": {"cluster": format_service(key)},
        "admin": {"address": admin},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [
                    {
                        "envoy_grpc": {
                            "cluster_name": stat_names.CONTROL_PLANE_CLUSTER,
                            # A control plane that restarted is to find its gateways soon.
                            "retry_policy": {
                                "retry_back_off": {"base_interval": "0.1s", "max_interval": "2s"}
                            },
                        },
                        "initial_metadata": [{"key": "authorization", "value": f"Bearer {token}"}],
                    }
                ],
            },
            "cds_config": {"ads": {}, "resource_api_version": "V3"},
            "lds_config": {"ads": {}, "resource_api_version": "V3"},
        },
        "static_resources": {
            "clusters": [
                build_control_plane_cluster(
                    stat_names.CONTROL_PLANE_CLUSTER, control_plane, control_plane.port
                ),
                _build_admin_cluster(admin),
            ],
            "listeners": [_build_stats_listener(stats_port)],
        },
        # Far above what one gateway serves, and below what its memory holds.
        "overload_manager": {
            "resource_monitors": [
                build_extension(
                    "envoy.resource_monitors.global_downstream_max_connections",
                    "envoy.extensions.resource_monitors.downstream_connections.v3"
                    ".DownstreamConnectionsConfig",
                    max_active_downstream_connections=_MAX_CONNECTIONS,
                )
            ]
        },
        "layered_runtime": {
            "layers": [
                {
                    "name": "static",
                    "static_layer": {
                        "tracing.opentelemetry.flush_interval_ms": 1000,
                        # A route of several models has a pattern of all their names. Envoy's own
                        # limit is a hundred characters, and it rejects all of the routes then.
                        "re2.max_program_size.error_level": _NO_LIMIT,
                    },
                }
            ]
        },
        **build_stats_config(),
    }


def build_arguments(bootstrap: str, pod: str, concurrency: int) -> list[str]:
    """The arguments of Envoy: the path of its bootstrap, the name of its pod, its threads."""
    return [
        *("--config-path", bootstrap),
        *("--service-node", pod),
        *("--concurrency", str(concurrency)),
        # A pod is replaced as a whole; hot restart would want memory that gateways share.
        "--disable-hot-restart",
        # Connections of a listener that changed are asked to close at once, and may take long to
        # finish their requests.
        *("--drain-strategy", "immediate"),
        *("--drain-time-s", "900"),
        *("--log-level", "warning"),
        # The access log is written at once.
        *("--file-flush-interval-msec", "1000"),
    ]


def _build_admin_cluster(address: EnvoyResource) -> EnvoyResource:
    return {
        "name": _ADMIN_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": _ADMIN_CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    }


def _build_stats_listener(port: int) -> EnvoyResource:
    """Readiness and statistics of Envoy's administration, and nothing else of it."""
    allowed = [
        {"match": {"path": path}, "route": {"cluster": _ADMIN_CLUSTER}}
        for path in ("/ready", "/stats", "/stats/prometheus")
    ]
    manager = build_extension(
        "envoy.filters.network.http_connection_manager",
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="stats",
        codec_type="AUTO",
        http_filters=[
            {
                "name": "envoy.filters.http.router",
                "typed_config": build_typed("envoy.extensions.filters.http.router.v3.Router"),
            }
        ],
        route_config={
            "name": "stats",
            "virtual_hosts": [
                {
                    "name": "stats",
                    "domains": ["*"],
                    "routes": [
                        *({**each, "match": each["match"] | _GET} for each in allowed),
                        {"match": {"prefix": "/"}, "direct_response": {"status": 404}},
                    ],
                }
            ],
        },
    )
    return {
        "name": "stats",
        "address": build_socket_address("0.0.0.0", port),  # noqa: S104 - Prometheus reads it
        # Whatever limit of connections there is: a probe and Prometheus get through.
        "ignore_global_conn_limit": True,
        "filter_chains": [{"filters": [manager]}],
    }


_GET: EnvoyResource = {"headers": [{"name": ":method", "string_match": {"exact": "GET"}}]}
