"""What the fleet contributes to the console."""

from typing import Any

import msgspec

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, Release
from kilonova.console import core
from kilonova.console.description import Assembly
from kilonova.console.server import DERIVED_TABLES
from kilonova.fleet.console import CONTRIBUTION
from kilonova.fleet.console.rows import cluster_row, global_deployment_row, release_row
from tests.console.console_page import to_wire

AT = "2026-05-01T00:00:00Z"
SECONDS = 1777593600.0


def metadata(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1", **more}


def test_contribution_is_valid() -> None:
    described = Assembly((core.CONTRIBUTION, CONTRIBUTION), DERIVED_TABLES).describe()
    added = [each for each in described.pages if each.table]
    assert [each.path for each in added] == ["/clusters", "/global-deployments", "/releases"]
    assert all(each.hide_empty for each in added)


def test_cluster_row_has_health_accelerators_and_console() -> None:
    cluster = {
        "metadata": metadata("dal1", annotations={"fleet.kilonova.dev/console": "http://c/"}),
        "spec": {"region": "us-south", "cordoned": True},
        "status": {
            "health": "Suspect",
            "reason": "Network",
            "lastSeen": AT,
            "instances": 3,
            "readyInstances": 2,
            "accelerators": [{"resource": "nvidia.com/gpu", "total": 64, "free": 8}],
        },
    }
    row = to_wire(cluster_row(msgspec.convert(cluster, Cluster)))
    assert row["health"] == "Suspect"
    assert row["console"] == "http://c/"
    assert row["lastSeen"] == SECONDS
    assert (row["instances"], row["ready"]) == (3, 2)
    assert row["accelerators"] == [{"resource": "nvidia.com/gpu", "total": 64, "free": 8}]


def test_deployment_row_has_its_clusters_and_waves() -> None:
    deployment = {
        "metadata": metadata("chat", "inference-engine"),
        "spec": {"release": "r2", "replicas": 4, "mask": ["r0"]},
        "status": {
            "release": "r2",
            "desired": 4,
            "observed": 3,
            "ready": 2,
            "unallocatable": 1,
            "currentWave": "canary",
            "waves": [
                {"name": "canary", "phase": "Baking", "clusters": ["dal1"], "started": AT},
                {"name": "rest", "clusters": ["fra3", "msp2"], "message": "waits for canary"},
            ],
            "clusters": [
                {
                    "cluster": "dal1",
                    "desired": 2,
                    "observed": 2,
                    "ready": 2,
                    "release": "r2",
                    "observedRelease": "r1",
                    "reachable": False,
                    "lastSeen": AT,
                    "reason": "not reachable",
                }
            ],
            "history": [{"revision": 2, "release": "r2", "since": AT}],
        },
    }
    row = to_wire(global_deployment_row(msgspec.convert(deployment, Deployment)))
    assert row["id"] == "inference-engine/chat"
    assert row["masked"] == ["r0"]
    assert row["clusters"] == [
        {
            "cluster": "dal1",
            "desired": 2,
            "observed": 2,
            "ready": 2,
            "release": "r1",
            "health": "Lost",
            "lastSeen": SECONDS,
            "reason": "not reachable",
        }
    ]
    assert [(each["name"], each["phase"], each["clusters"]) for each in row["waves"]] == [
        ("canary", "Baking", "dal1"),
        ("rest", "Pending", "fra3, msp2"),
    ]
    assert row["history"] == [
        {"revision": 2, "release": "r2", "health": "Unknown", "since": SECONDS}
    ]


def test_release_row_counts_instances_of_all_clusters() -> None:
    release = {
        "metadata": metadata("r2", "inference-engine"),
        "spec": {"model": "llama32-90b", "build": "b7"},
        "status": {
            "health": "Healthy",
            "clusters": [
                {"cluster": "dal1", "instances": 2, "ready": 2},
                {"cluster": "fra3", "instances": 1, "ready": 0},
            ],
        },
    }
    row = to_wire(release_row(msgspec.convert(release, Release)))
    assert (row["instances"], row["build"], row["health"]) == (3, "b7", "Healthy")
    assert [each["cluster"] for each in row["clusters"]] == ["dal1", "fra3"]
