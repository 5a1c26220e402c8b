"""Builders of gangs and sets for tests of backends."""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.podgang import (
    PackConstraint,
    PodGang,
    PodGangSpec,
    PodGroup,
    TopologyConstraint,
    TopologyConstraintGroup,
)
from kilonova.workloads.backends.queues import QUEUE_KEYS
from kilonova.workloads.resources import ChildObject
from tests.workloads.api_objects import clique, metadata, pod_clique_set

BINDING = "fleet"


def pack_constraint(
    required: str | None = None, preferred: str | None = None
) -> TopologyConstraint:
    """A constraint of a gang."""
    return TopologyConstraint(PackConstraint(required, preferred))


def build_gang(
    *groups: tuple[str, int] | tuple[str, int, TopologyConstraint],
    together: Mapping[str, Sequence[str]] | None = None,
    at: TopologyConstraint | None = None,
    whole: TopologyConstraint | None = None,
    priority: str = "",
) -> PodGang:
    """The gang `sys-0`; `together` are pod groups under a common constraint `at`, by its name."""
    own = metadata(
        "sys-0",
        labels={names.PART_OF: "sys", "team": "red"},
        annotations={names.TOPOLOGY_NAME: BINDING},
    )
    configs = [
        TopologyConstraintGroup(name, tuple(members), at)
        for name, members in (together or {}).items()
    ]
    parts = [PodGroup(each[0], (), each[1], *each[2:]) for each in groups]
    spec = PodGangSpec(tuple(parts), whole, tuple(configs), priority)
    return PodGang(own, spec)


def build_queued_set(scheduler: str, queue: str = "") -> PodCliqueSet:
    """A set in a queue of a scheduler, or without one."""
    marks = {QUEUE_KEYS[scheduler]: queue} if queue else {}
    return pod_clique_set(clique("worker"), annotations=marks)


def to_stored_object(wanted: Any, **spec: Any) -> ChildObject:
    """A PodGroup as stored; `spec` are fields that others wrote."""
    own = wanted["metadata"]
    return ChildObject(
        metadata(own["name"], labels={**own["labels"]}, annotations={**own["annotations"]}),
        {**wanted["spec"], **spec},
    )
