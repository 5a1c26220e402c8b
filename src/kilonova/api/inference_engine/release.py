"""Release: what is rolled out: a model with its build, image, tokenizer and configuration."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.inference_engine.templates import CountOrZero, EngineSpec
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

Verdict = Literal["Unknown", "Healthy", "Failing"]


class ClusterRelease(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A cluster that runs the release."""

    cluster: str
    """The name of the cluster."""
    instances: CountOrZero = 0
    """The number of its instances there."""
    ready: CountOrZero = 0
    """The number of ready ones."""
    since: Time | None = None
    """Since when it runs there."""


class ReleaseStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a release runs, and how well."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    clusters: tuple[ClusterRelease, ...] = ()
    """The clusters that run it, by name."""
    health: Annotated[Verdict, Meta(extra={"default": "Unknown"})] = "Unknown"
    """The verdict of rollouts: Failing if one was stopped because of it."""
    masked: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether a Deployment masks it."""
    conditions: tuple[Condition, ...] = ()


class Release(msgspec.Struct, gc=False):
    """An immutable bundle of a model, its build, image, tokenizer and configuration."""

    RULES: ClassVar = (
        ValidationRule(
            "self.spec == oldSelf.spec",
            "a release is immutable: create another one with the changes",
            field_path=".spec",
        ),
    )

    metadata: Metadata
    spec: EngineSpec
    status: ReleaseStatus = ReleaseStatus()
