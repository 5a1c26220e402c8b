"""Cliques whose pods run to an end: when all is done, and when it has failed for good. Pure."""

from kilonova.api.grove import PodClique, PodCliqueSet
from kilonova.workloads.cliques.roster import Roster, has_succeeded, runs_to_an_end
from kilonova.workloads.conditions import find_condition
from kilonova.workloads.keys import incarnation_of

COMPLETE = "Complete"
FAILED = "Failed"

_BACKOFF_LIMIT = 6


def backoff_limit(set_: PodCliqueSet | None) -> int:
    """How many pods of a clique may fail before it has failed."""
    asked = None if set_ is None else set_.spec.template.backoff_limit
    return _BACKOFF_LIMIT if asked is None else asked


def has_failed(set_: PodCliqueSet | None, roster: Roster) -> bool:
    """Whether more pods have failed than may. Who deletes them lets the clique try again."""
    return len(roster.failed) > backoff_limit(set_)


def is_complete(clique: PodClique, roster: Roster) -> bool:
    """Whether every pod has done its work.

    What was said once stays true though somebody clears the pods away, until the clique is changed
    or started anew.
    """
    if not runs_to_an_end(clique) or clique.spec.replicas == 0:
        return False
    if sum(map(has_succeeded, roster.members)) >= clique.spec.replicas:
        return True
    status, known = clique.status, clique.metadata
    said = find_condition(status.conditions, COMPLETE)
    return (
        said is not None
        and said.status == "True"
        and said.observed_generation == known.generation
        and status.healthy_incarnation == incarnation_of(known)
    )
