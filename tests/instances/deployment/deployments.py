"""Deployments, instances and what is observed of them, as values."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineDeploymentSpec,
    InferenceEngineDeploymentStatus,
    InferenceEngineInstance,
    InstancePhase,
    InstanceStatus,
    Release,
    UpdateStrategy,
    names,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import format_rfc3339
from kilonova.instances.controllers.deployment.observed import (
    EstimateCapacity,
    ObservedDeployment,
    estimate_nothing,
)
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    resolve_current_revision,
)
from kilonova.instances.controllers.deployment.template import DeploymentTemplate

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
NAMESPACE = "inference-engine"


def template(release: str = "r1", **fields: Any) -> EngineSpec:
    """The template of a release."""
    spec: dict[str, Any] = {"release": release, "target_agents": 4, "image": release, **fields}
    return EngineSpec(model="llama", **spec)


def deployment(
    release: str = "r1",
    replicas: int = 3,
    *,
    strategy: UpdateStrategy | None = None,
    status: InferenceEngineDeploymentStatus | None = None,
    **fields: Any,
) -> InferenceEngineDeployment:
    """A deployment with an inline template."""
    spec: dict[str, Any] = {
        "replicas": replicas,
        "release": release,
        "template": template(release),
        **fields,
    }
    return InferenceEngineDeployment(
        Metadata(name="llama", uid="ied", resource_version="1", namespace=NAMESPACE, generation=1),
        InferenceEngineDeploymentSpec(strategy=strategy or UpdateStrategy(), **spec),
        status or InferenceEngineDeploymentStatus(),
    )


def revision(release: str, number: int) -> DeploymentRevision:
    """The recorded revision of a release's template."""
    found = resolve_current_revision(
        deployment(release), DeploymentTemplate(template(release), is_inline=True), ()
    )
    return DeploymentRevision(found.name, found.hash, number, found.template)


def instance(
    name: str,
    release: str = "r1",
    state: str = "ready",
    *,
    created: datetime = START,
    ready_since: datetime = START,
    terminating: bool = False,
) -> InferenceEngineInstance:
    """An instance of a release; `state` is ready, starting, waiting or unallocatable."""
    allocated = (
        Condition("Allocated", "False", "InsufficientCapacity", "0/2 nodes have 4 free GPUs")
        if state in ("waiting", "unallocatable")
        else Condition("Allocated", "True", "Allocated")
    )
    ready = Condition(
        "Ready",
        "True" if state == "ready" else "False",
        last_transition_time=format_rfc3339(ready_since),
    )
    phases: dict[str, InstancePhase] = {
        "ready": "Ready",
        "starting": "Starting",
        "waiting": "Allocating",
        "unallocatable": "Failed",
    }
    return InferenceEngineInstance(
        Metadata(
            name=name,
            uid=name,
            resource_version="1",
            namespace=NAMESPACE,
            labels={
                names.DEPLOYMENT: "llama",
                names.TEMPLATE_HASH: revision(release, 1).hash,
            },
            creation_timestamp=format_rfc3339(created),
            deletion_timestamp=format_rfc3339(START) if terminating else None,
        ),
        template(release),
        InstanceStatus(phase=phases[state], conditions=(allocated, ready)),
    )


def instances(*states: str) -> list[InferenceEngineInstance]:
    """Instances from `RELEASE STATE`, each created a second after the one before."""
    return [
        instance(
            f"{each.split()[0]}-{number}",
            *each.split()[:2],
            created=START + timedelta(seconds=number),
            terminating=each.endswith(" terminating"),
        )
        for number, each in enumerate(states)
    ]


def observed(
    of: InferenceEngineDeployment,
    present: Sequence[InferenceEngineInstance] = (),
    revisions: Sequence[DeploymentRevision] = (),
    *,
    release: Release | None = None,
    estimate: EstimateCapacity = estimate_nothing,
) -> ObservedDeployment:
    """What is observed of a deployment."""
    return ObservedDeployment(of, release, present, revisions, estimate)


def release_object(name: str, **fields: Any) -> Release:
    """A Release."""
    metadata = Metadata(name=name, uid=name, resource_version="1", namespace=NAMESPACE)
    return Release(metadata, replace(template(name, **fields), release=""))


def condition_of(status: InferenceEngineDeploymentStatus, type_: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    return next((each.status, each.reason) for each in status.conditions if each.type == type_)


def message_of(status: InferenceEngineDeploymentStatus, type_: str) -> str:
    """The message of a condition."""
    return next(each.message for each in status.conditions if each.type == type_)
