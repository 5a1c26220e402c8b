"""Cliques that run to completion: when they are complete, and when they have failed. Pure."""

from kilonova.api.grove import PodClique, PodCliqueSet
from kilonova.kube.status import find_condition
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import ClassifiedPods, has_succeeded, runs_to_completion

COMPLETE_CONDITION = "Complete"
FAILED_CONDITION = "Failed"

_DEFAULT_BACKOFF_LIMIT = 6


def get_backoff_limit(set_: PodCliqueSet | None) -> int:
    """How many pods of a clique may fail before the clique has failed."""
    limit = None if set_ is None else set_.spec.template.backoff_limit
    return _DEFAULT_BACKOFF_LIMIT if limit is None else limit


def has_exceeded_backoff_limit(set_: PodCliqueSet | None, pods: ClassifiedPods) -> bool:
    """Whether more pods have failed than the limit; deleting failed pods lowers the number."""
    return len(pods.failed) > get_backoff_limit(set_)


def is_complete(clique: PodClique, pods: ClassifiedPods) -> bool:
    """Whether every pod has succeeded.

    A recorded Complete condition stays valid after the pods are deleted, until the clique is
    changed or restarted.
    """
    if not runs_to_completion(clique) or clique.spec.replicas == 0:
        return False
    if sum(map(has_succeeded, pods.members)) >= clique.spec.replicas:
        return True
    status, known = clique.status, clique.metadata
    recorded = find_condition(status.conditions, COMPLETE_CONDITION)
    return (
        recorded is not None
        and recorded.status == "True"
        and recorded.observed_generation == known.generation
        and status.healthy_incarnation == get_incarnation(known)
    )
