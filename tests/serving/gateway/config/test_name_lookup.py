"""Names of Services that Envoy resolves on a process node, where the nameserver is routed."""

import json
from pathlib import Path

from kilonova.serving.gateway.config.upstream.control_plane_clusters import (
    build_control_plane_cluster,
)
from kilonova.serving.gateway.model import ControlPlaneAddress
from tests.local.processnode.kubelet.process_cluster import process_cluster
from tests.serving.serving_cluster import SERVICES

SCRIPT = """
    envoy --config-yaml "$CONFIG" --disable-hot-restart --concurrency 1 --log-level error &
    until curl -s --unix-socket admin.sock http://admin/clusters | grep -q "^target::10\\."; do
        sleep 0.1
    done
    kill $!
"""


async def test_gateway_finds_its_control_plane_by_the_name_of_a_service(tmp_path: Path) -> None:
    address = ControlPlaneAddress("control.default.svc", 18000)
    bootstrap = {
        "admin": {"address": {"pipe": {"path": "admin.sock"}}},
        "static_resources": {"clusters": [build_control_plane_cluster("target", address, 18000)]},
    }
    container = {
        "image": "envoyproxy/envoy:v1.36.2",
        "env": [{"name": "CONFIG", "value": json.dumps(bootstrap)}],
    }
    service = {"metadata": {"name": "control"}, "spec": {"ports": [{"port": 18000}]}}
    async with process_cluster(tmp_path / "data") as cluster:
        await cluster.client.create(SERVICES, service, "default")
        await cluster.run("gateway", "sh", "-c", SCRIPT, container=container, restartPolicy="Never")
        await cluster.wait_for_phase("gateway", "Succeeded")
