"""Builders of the values that workload controllers decide on."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import format_rfc3339
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    IntOrPercent,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateStrategy,
    UpdateStrategy,
)
from kilonova.local.objects.core import ContainerStatus, Pod, PodSpec, PodStatus
from tests.local.controllers.apps.manifests import template

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def time_ago(seconds: float) -> str:
    return format_rfc3339(NOW - timedelta(seconds=seconds))


def build_pod(
    name: str = "p",
    *,
    node: str = "n",
    phase: str = "Running",
    ready: float | None = 100,
    age: float = 100,
    restarts: int = 0,
    terminating: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Pod:
    """A pod; `ready` is for how many seconds it has been ready."""
    conditions = () if ready is None else (Condition("Ready", "True", "", "", time_ago(ready)),)
    return Pod(
        Metadata(
            name,
            uid=name,
            resource_version="1",
            namespace="default",
            labels=labels or {},
            annotations=annotations or {},
            creation_timestamp=time_ago(age),
            deletion_timestamp=time_ago(0) if terminating else None,
        ),
        PodSpec(node_name=node),
        PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=(ContainerStatus("main", restart_count=restarts),),
        ),
    )


def build_replica_set(
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
    """A ReplicaSet with the annotations of its Deployment."""
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
            creation_timestamp=time_ago(age),
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


def build_deployment(
    replicas: int,
    *,
    surge: IntOrPercent = "25%",
    unavailable: IntOrPercent = "25%",
    recreate: bool = False,
    image: str = "img:1",
    status: DeploymentStatus | None = None,
    **spec: Any,
) -> Deployment:
    strategy = (
        UpdateStrategy("Recreate")
        if recreate
        else UpdateStrategy("RollingUpdate", RollingUpdateStrategy(surge, unavailable))
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
