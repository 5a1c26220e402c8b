"""Envoy of the real parts serves a static configuration."""

import json
from pathlib import Path

from tests.harness.http_probe import fetch, is_serving
from tests.harness.server_process import ServerProcess, find_free_port
from tools.realparts.parts.envoy import COMMAND

_MANAGER = (
    "type.googleapis.com/envoy.extensions.filters.network."
    "http_connection_manager.v3.HttpConnectionManager"
)
_ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"


def test_listener_answers_by_its_route(envoy_part: Path, tmp_path: Path) -> None:
    port, admin = find_free_port(), find_free_port()
    config = tmp_path / "envoy.json"
    config.write_text(json.dumps(build_config(port, admin, "hello")))
    process = ServerProcess(
        "envoy",
        # Instances on one machine share memory by their base id.
        [envoy_part / COMMAND, "-c", config, "--use-dynamic-base-id", "--concurrency", "1"],
        tmp_path / "envoy.log",
    )
    process.wait_until(lambda: is_serving(f"http://127.0.0.1:{admin}/ready"))
    assert fetch(f"http://127.0.0.1:{port}/any/path") == (200, b"hello")
    process.stop()


def build_config(port: int, admin: int, answer: str) -> object:
    """A listener that answers every request itself."""
    route = {
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": answer}},
    }
    manager = {
        "@type": _MANAGER,
        "stat_prefix": "test",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "router", "typed_config": {"@type": _ROUTER}}],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    listener = {"name": "test", "address": build_address(port), "filter_chains": [chain]}
    return {
        "admin": {"address": build_address(admin)},
        "static_resources": {"listeners": [listener]},
    }


def build_address(port: int) -> object:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
