"""How many pods of a clique are how far, and how many it must have. Pure."""

from dataclasses import dataclass

from kilonova.api.grove import PodClique
from kilonova.workloads.cliques.roster import Roster, has_succeeded, is_current, is_up, needed
from kilonova.workloads.pods import is_scheduled


@dataclass(frozen=True, slots=True)
class Tally:
    """The members of a clique, counted as they are now, not as its status last said."""

    needed: int
    scheduled: int
    up: int
    """Ready, or done with their work."""
    updated: int
    """Made from the template that the clique has now."""
    outdated: int
    """Made from another, and not done yet."""

    @property
    def is_scheduled(self) -> bool:
        """Whether enough pods have a node."""
        return self.scheduled >= self.needed

    @property
    def is_available(self) -> bool:
        """Whether enough pods do their work."""
        return self.up >= self.needed

    @property
    def is_updated(self) -> bool:
        """Whether enough pods are of the template, and none is of another."""
        return not self.outdated and self.updated >= self.needed


def tally(clique: PodClique, roster: Roster) -> Tally:
    """The pods of a clique, counted."""
    members = roster.members
    others = [pod for pod in members if not is_current(clique, pod)]
    return Tally(
        needed=needed(clique),
        scheduled=sum(map(is_scheduled, members)),
        up=sum(map(is_up, members)),
        updated=len(members) - len(others),
        outdated=sum(not has_succeeded(pod) for pod in others),
    )
