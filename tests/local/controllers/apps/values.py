"""Small builders of the values that controllers of sets decide on."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import rfc3339
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdate,
    Share,
    Strategy,
)
from kilonova.local.controllers.objects import ContainerStatus, Pod, PodSpec, PodStatus
from tests.local.controllers.apps.workloads import template

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return rfc3339(NOW - timedelta(seconds=seconds))


def a_pod(
    name: str = "p",
    *,
    node: str = "n",
    phase: str = "Running",
    ready: float | None = 100,
    age: float = 100,
    restarts: int = 0,
    going: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A pod; `ready` is for how many seconds it has been."""
    conditions = () if ready is None else (Condition("Ready", "True", "", "", ago(ready)),)
    return Pod(
        Metadata(
            name,
            uid=name,
            resource_version="1",
            namespace="default",
            labels=labels or {},
            annotations=annotations or {},
            creation_timestamp=ago(age),
            deletion_timestamp=ago(0) if going else None,
        ),
        PodSpec(node_name=node),
        PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=(ContainerStatus("main", restart_count=restarts),),
        ),
    )


def a_set(
    name: str,
    size: int,
    *,
    available: int | None = None,
    image: str = "img:1",
    age: float = 100,
    revision: str = "",
    history: str = "",
    desired: int | None = None,
    most: int | None = None,
) -> ReplicaSet:
    """A ReplicaSet, with what its Deployment noted on it."""
    there = size if available is None else available
    notes = {
        "revision": revision,
        "revision-history": history,
        "desired-replicas": "" if desired is None else str(desired),
        "max-replicas": "" if most is None else str(most),
    }
    return ReplicaSet(
        Metadata(
            name,
            uid=name,
            resource_version="1",
            namespace="default",
            generation=1,
            creation_timestamp=ago(age),
            annotations={
                f"deployment.kubernetes.io/{key}": value for key, value in notes.items() if value
            },
        ),
        ReplicaSetSpec(replicas=size, template=template(image=image)),
        ReplicaSetStatus(
            replicas=size,
            ready_replicas=there,
            available_replicas=there,
            terminating_replicas=0,
            observed_generation=1,
        ),
    )


def a_deployment(
    replicas: int,
    *,
    surge: Share = "25%",
    unavailable: Share = "25%",
    recreate: bool = False,
    image: str = "img:1",
    status: DeploymentStatus | None = None,
    **spec: Any,
) -> Deployment:
    strategy = (
        Strategy("Recreate")
        if recreate
        else Strategy("RollingUpdate", RollingUpdate(surge, unavailable))
    )
    return Deployment(
        Metadata("web", uid="d", resource_version="1", namespace="default", generation=1),
        DeploymentSpec(
            replicas=replicas,
            strategy=strategy,
            selector={"matchLabels": {"app": "web"}},
            template=template(image=image),
            **spec,
        ),
        status or DeploymentStatus(),
    )
