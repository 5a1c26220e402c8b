"""Builders for pods as the kubelet decodes them."""

from typing import Any

import msgspec

from kilonova.local.processnode.kubelet.containers.runs import (
    ContainerRun,
    RunHistory,
    build_run_id,
)
from kilonova.local.processnode.kubelet.objects import Pod

UID = "5d1c2a62-0001-4000-8000-000000000001"


def pod(*containers: Any, init: tuple[Any, ...] = (), status: Any = None, **spec: Any) -> Pod:
    """A pod of `default/p`; containers are names or objects."""
    metadata = {
        "name": "p",
        "namespace": "default",
        "uid": UID,
        "resourceVersion": "1",
        "generation": 3,
        **spec.pop("metadata", {}),
    }
    body = {
        "metadata": metadata,
        "spec": {
            "containers": [_container(each) for each in containers or ("main",)],
            "initContainers": [_container(each) for each in init],
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(body, Pod)


def sidecar(name: str, **fields: Any) -> Any:
    return {"name": name, "restartPolicy": "Always", **fields}


def running(name: str = "main", attempt: int = 0, started: float = 100.0) -> RunHistory:
    return RunHistory(ContainerRun(attempt, build_run_id(UID, name, attempt), started))


def ended(
    name: str = "main", code: int = 0, attempt: int = 0, finished: float = 200.0
) -> RunHistory:
    reason = "Error" if code else "Completed"
    run = ContainerRun(attempt, build_run_id(UID, name, attempt), 100.0, finished, code, reason)
    return RunHistory(run)


NEVER_RAN = RunHistory()


def _container(each: Any) -> Any:
    return {"name": each} if isinstance(each, str) else each
