"""A genuine kube-scheduler gives devices and volumes to pods of an embedded cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.genuine import complaints, kube_scheduler
from tests.clients.ground import Ground, until
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.harness.embedded import EmbeddedServer

_FLEET = """
nodes:
  - {name: gpu, count: 2, start: 20ms, stop: 20ms}
"""
_DRIVER = "gpu.example.com"
_WANTED = {"name": "gpu", "resourceClaimTemplateName": "large-gpu"}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Two nodes, each with a small and a large GPU that a driver has published."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder = tmp_path_factory.mktemp("devices")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as server:
        ground = Ground.on(server, folder)
        with kube_scheduler(server.access, folder) as scheduler:
            ground.run("wait --for=create serviceaccount/default --timeout=30s")
            objects = [_slice("gpu-0"), _slice("gpu-1"), _device_class(), _template()]
            _create(ground, *objects)
            yield ground
            assert complaints(scheduler) == []


def test_each_pod_gets_the_device_that_it_asks_for(ground: Ground) -> None:
    _create(ground, *(_pod(f"large-{number}", _WANTED) for number in range(3)))
    running = "pods --field-selector=status.phase=Running"
    placed = until(
        lambda: [name for name in ground.names(running) if "large" in name],
        lambda names: len(names) == 2,
    )
    claims = ground.read("resourceclaims")["items"]
    given = sorted(
        (result["pool"], result["device"])
        for claim in claims
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    )
    assert given == [("gpu-0", "large"), ("gpu-1", "large")]
    (waiting,) = {f"large-{number}" for number in range(3)} - {
        name.rpartition("/")[2] for name in placed
    }
    told = until(lambda: ground.run(f"events --for=pod/{waiting}"), lambda text: "cannot" in text)
    assert "cannot allocate all claims" in told

    ended = placed[0].rpartition("/")[2]
    ground.run(f"delete pod {ended}")
    ground.run(f"wait --for=condition=Ready pod/{waiting} --timeout=60s")
    left = until(lambda: ground.read("resourceclaims")["items"], lambda claims: len(claims) == 2)
    assert all(claim["status"]["reservedFor"] for claim in left)


def test_a_volume_is_made_where_the_scheduler_places_the_pod(ground: Ground) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": spec,
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    _create(ground, claim, _pod("keeper", volumes=[volume]))
    ground.run("wait --for=condition=Ready pod/keeper --timeout=60s")
    node = ground.read("pod keeper")["spec"]["nodeName"]
    bound = ground.read("pvc data")
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node
    assert bound["status"]["phase"] == "Bound"
    shown = ground.run("get pvc,pv,sc")
    assert "local (default)" in shown
    assert "kilonova.dev/local" in shown


def _create(ground: Ground, *items: Any) -> None:
    ground.run("create -f -", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def _slice(node: str) -> Any:
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


def _device_class() -> Any:
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": selectors},
    }


def _template() -> Any:
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


def _pod(name: str, claim: Any = None, **spec: Any) -> Any:
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
