"""Which queue of its scheduler a set is in. Pure.

A queue is named by a label or an annotation, on the set or on its cliques; all name the same.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kilonova.api.grove import CliqueTemplate
from kilonova.workloads.backends import KAI, VOLCANO

QUEUE_KEYS = {KAI: "kai.scheduler/queue", VOLCANO: "scheduling.grove.io/volcano-queue"}
"""By which label or annotation a scheduler's queue is named."""
VOLCANO_DEFAULT_QUEUE = "default"
"""Where Volcano puts what names no queue; KAI has none such."""


class Marked(Protocol):
    """Metadata of a set, that is there or that somebody wants to have."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...


def named_queues(
    scheduler: str, metadata: Marked, cliques: Sequence[CliqueTemplate]
) -> list[tuple[str, str]]:
    """Every place where a queue of a scheduler is named, and what is named there."""
    key = QUEUE_KEYS[scheduler]
    parts: list[tuple[str, Marked]] = [("metadata", metadata)]
    parts += [(f"spec.template.cliques[{index}]", each) for index, each in enumerate(cliques)]
    return [
        (f"{path}.{kind}[{key}]", marks[key])
        for path, part in parts
        for kind, marks in (("labels", part.labels), ("annotations", part.annotations))
        if marks.get(key)
    ]


def queue_of(scheduler: str, metadata: Marked, cliques: Sequence[CliqueTemplate]) -> str | None:
    """The queue of a set; None where none is named, or several are."""
    named = {queue for _, queue in named_queues(scheduler, metadata, cliques)}
    if len(named) == 1:
        return named.pop()
    return VOLCANO_DEFAULT_QUEUE if scheduler == VOLCANO and not named else None
