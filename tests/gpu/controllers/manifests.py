"""Manifests of workloads, and changes of them by path."""

from typing import Any

from tests.api.manifests import with_changes

TRAINER: Any = {"name": "trainer", "image": "example.com/trainer:1"}


def workload(name: str = "job", *, gpus: int = 8, changes: Any = None) -> Any:
    """A workload with a pod template; `changes` are by path within the object."""
    body: Any = {
        "apiVersion": "kgwe.nvidia.io/v1",
        "kind": "GPUWorkload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "gpuRequirements": {"count": gpus},
            "podTemplate": {"spec": {"containers": [TRAINER]}},
        },
    }
    return with_changes(body, changes or {})


def run_for(seconds: float, exit_code: int = 0) -> Any:
    """Changes: simulated nodes end the containers after a time."""
    return {
        "spec.podTemplate.metadata": {
            "annotations": {
                "sim.kilonova.dev/run-seconds": str(seconds),
                "sim.kilonova.dev/exit-code": str(exit_code),
            }
        }
    }
