"""What exists of a deployment. Values only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineInstance,
    Release,
)
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    sort_newest_first,
)


@dataclass(frozen=True, slots=True)
class CapacityEstimate:
    """How many more instances of a template could be placed in the cluster."""

    additional: int
    message: str
    """Why there could not be more."""
    time: datetime
    """When this was computed."""


EstimateCapacity = Callable[
    [EngineSpec, Sequence[InferenceEngineInstance]], CapacityEstimate | None
]
"""How many instances of a template could be placed if some instances were gone; None while that is
unknown."""


def estimate_nothing(
    template: EngineSpec, without: Sequence[InferenceEngineInstance]
) -> CapacityEstimate | None:
    """Where the capacity of the cluster is not known."""
    del template, without
    return None


@dataclass(frozen=True)
class ObservedDeployment:
    """A deployment and all that exists of it."""

    deployment: InferenceEngineDeployment
    release: Release | None
    """The Release that it names."""
    instances: Sequence[InferenceEngineInstance]
    """The instances that it controls."""
    revisions: Sequence[DeploymentRevision]
    """The revisions that are recorded."""
    estimate_capacity: EstimateCapacity = estimate_nothing

    @cached_property
    def present(self) -> tuple[InferenceEngineInstance, ...]:
        """The instances that are not being deleted."""
        return tuple(each for each in self.instances if each.metadata.deletion_timestamp is None)

    @cached_property
    def terminating(self) -> tuple[InferenceEngineInstance, ...]:
        """The instances that are being deleted."""
        return tuple(
            each for each in self.instances if each.metadata.deletion_timestamp is not None
        )

    @cached_property
    def newest_revision(self) -> DeploymentRevision | None:
        """The revision that was rolled out last."""
        return next(iter(sort_newest_first(self.revisions)), None)
