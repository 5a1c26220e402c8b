"""Numbers of a clique's pods by state. Pure."""

from dataclasses import dataclass

from kilonova.api.grove import PodClique
from kilonova.workloads.pods.classification import (
    ClassifiedPods,
    count_required_pods,
    has_succeeded,
    is_current,
    is_ready_or_succeeded,
)
from kilonova.workloads.pods.state import is_scheduled


@dataclass(frozen=True, slots=True)
class CliquePodCounts:
    """Numbers of a clique's members as observed now, not as in the last status."""

    required: int
    scheduled: int
    ready_or_succeeded: int
    """Ready, or run to completion."""
    updated: int
    """Made from the current template of the clique."""
    outdated: int
    """Made from another template, and not succeeded."""

    @property
    def is_scheduled(self) -> bool:
        """Whether enough pods have a node."""
        return self.scheduled >= self.required

    @property
    def is_available(self) -> bool:
        """Whether enough pods are ready or have succeeded."""
        return self.ready_or_succeeded >= self.required

    @property
    def is_updated(self) -> bool:
        """Whether enough pods have the current template, and none another."""
        return not self.outdated and self.updated >= self.required


def count_pods(clique: PodClique, pods: ClassifiedPods) -> CliquePodCounts:
    """Count the pods of a clique."""
    members = pods.members
    others = [pod for pod in members if not is_current(clique, pod)]
    return CliquePodCounts(
        required=count_required_pods(clique),
        scheduled=sum(map(is_scheduled, members)),
        ready_or_succeeded=sum(map(is_ready_or_succeeded, members)),
        updated=len(members) - len(others),
        outdated=sum(not has_succeeded(pod) for pod in others),
    )
