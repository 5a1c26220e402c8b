"""kube-scheduler allocates devices and volumes to pods of an embedded cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_cluster import ClientCluster, wait_until
from tests.clients.kube_components import kube_scheduler, list_log_errors
from tests.harness.embedded_server import EmbeddedServer

_FLEET = """
nodes:
  - {name: gpu, count: 2, start: 20ms, stop: 20ms}
"""
_DRIVER = "gpu.example.com"
_CLAIM_SPEC = {"name": "gpu", "resourceClaimTemplateName": "large-gpu"}


@pytest.fixture(scope="module")
def client_cluster(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    """Two nodes, each with a small and a large GPU published by a driver."""
    folder = tmp_path_factory.mktemp("devices")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as server:
        client_cluster = ClientCluster.from_server(server, folder)
        with kube_scheduler(server.access, folder) as scheduler:
            client_cluster.run_kubectl("wait --for=create serviceaccount/default --timeout=30s")
            objects = [
                _build_resource_slice("gpu-0"),
                _build_resource_slice("gpu-1"),
                _build_device_class(),
                _build_claim_template(),
            ]
            _create_objects(client_cluster, *objects)
            yield client_cluster
            assert list_log_errors(scheduler) == []


def test_each_pod_gets_the_device_that_it_requests(client_cluster: ClientCluster) -> None:
    _create_objects(
        client_cluster, *(_build_pod(f"large-{number}", _CLAIM_SPEC) for number in range(3))
    )
    running = "pods --field-selector=status.phase=Running"
    placed = wait_until(
        lambda: [name for name in client_cluster.list_names(running) if "large" in name],
        lambda names: len(names) == 2,
    )
    claims = client_cluster.get_json("resourceclaims")["items"]
    given = sorted(
        (result["pool"], result["device"])
        for claim in claims
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    )
    assert given == [("gpu-0", "large"), ("gpu-1", "large")]
    (waiting,) = {f"large-{number}" for number in range(3)} - {
        name.rpartition("/")[2] for name in placed
    }
    message = wait_until(
        lambda: client_cluster.run_kubectl(f"events --for=pod/{waiting}"),
        lambda text: "cannot" in text,
    )
    assert "cannot allocate all claims" in message

    ended = placed[0].rpartition("/")[2]
    client_cluster.run_kubectl(f"delete pod {ended}")
    client_cluster.run_kubectl(f"wait --for=condition=Ready pod/{waiting} --timeout=60s")
    left = wait_until(
        lambda: client_cluster.get_json("resourceclaims")["items"], lambda claims: len(claims) == 2
    )
    assert all(claim["status"]["reservedFor"] for claim in left)


def test_volume_is_provisioned_where_the_scheduler_places_the_pod(
    client_cluster: ClientCluster,
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": spec,
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    _create_objects(client_cluster, claim, _build_pod("keeper", volumes=[volume]))
    client_cluster.run_kubectl("wait --for=condition=Ready pod/keeper --timeout=60s")
    node = client_cluster.get_json("pod keeper")["spec"]["nodeName"]
    bound = client_cluster.get_json("pvc data")
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node
    assert bound["status"]["phase"] == "Bound"
    shown = client_cluster.run_kubectl("get pvc,pv,sc")
    assert "local (default)" in shown
    assert "kilonova.dev/local" in shown


def _create_objects(client_cluster: ClientCluster, *items: Any) -> None:
    client_cluster.run_kubectl(
        "create -f -", json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )


def _build_resource_slice(node: str) -> Any:
    devices = [
        {
            "name": name,
            "attributes": {"size": {"string": name}, "version": {"version": "1.2.3"}},
            "capacity": {"memory": {"value": memory}},
        }
        for name, memory in (("small", "10Gi"), ("large", "80Gi"))
    ]
    spec = {
        "driver": _DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": spec,
    }


def _build_device_class() -> Any:
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": selectors},
    }


def _build_claim_template() -> Any:
    expression = (
        f'device.attributes["{_DRIVER}"].size == "large" && '
        f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) > 0'
    )
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "large-gpu"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def _build_pod(name: str, claim: Any = None, **spec: Any) -> Any:
    container: Any = {"name": "main", "image": "registry.example.com/train"}
    if claim is not None:
        container["resources"] = {"claims": [{"name": claim["name"]}]}
        spec["resourceClaims"] = [claim]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }
