"""The queue of a set in its scheduler. Pure.

A queue is named by a label or annotation of the set or of its cliques; all must name the same.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kilonova.api.grove import CliqueTemplate
from kilonova.workloads.backends import KAI, VOLCANO

QUEUE_KEYS = {KAI: "kai.scheduler/queue", VOLCANO: "scheduling.grove.io/volcano-queue"}
"""The label or annotation key that names a scheduler's queue."""
VOLCANO_DEFAULT_QUEUE = "default"
"""Volcano's queue for sets that name none; KAI has no default."""


class LabelledObject(Protocol):
    """Metadata of a set, stored or submitted."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...


def list_queue_references(
    scheduler: str, metadata: LabelledObject, cliques: Sequence[CliqueTemplate]
) -> list[tuple[str, str]]:
    """Every path that names a queue of a scheduler, with the name."""
    key = QUEUE_KEYS[scheduler]
    parts: list[tuple[str, LabelledObject]] = [("metadata", metadata)]
    parts += [(f"spec.template.cliques[{index}]", each) for index, each in enumerate(cliques)]
    return [
        (f"{path}.{kind}[{key}]", metadata_map[key])
        for path, part in parts
        for kind, metadata_map in (("labels", part.labels), ("annotations", part.annotations))
        if metadata_map.get(key)
    ]


def resolve_queue(
    scheduler: str, metadata: LabelledObject, cliques: Sequence[CliqueTemplate]
) -> str | None:
    """The queue of a set; None if it names none or several."""
    named = {queue for _, queue in list_queue_references(scheduler, metadata, cliques)}
    if len(named) == 1:
        return named.pop()
    return VOLCANO_DEFAULT_QUEUE if scheduler == VOLCANO and not named else None
