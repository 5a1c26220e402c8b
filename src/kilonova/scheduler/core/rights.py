"""Who may take room from whom.

- **Reclaim**: a queue gets back what it deserves from queues that use more than they deserve. The
  one that reclaims stays within what it deserves, the other keeps what it deserves, and so do the
  queues above them up to the first that both are part of. Of a resource that it does not list a
  queue deserves nothing: it never takes that from a queue which deserves it.
- **Preemption**: a gang makes room for a more important one of its own queue.

A gang is safe from either for a while after its start, as its queue says.

Reclaim alone never goes in circles. Who gets a place by it stays within what its queue deserves,
and for that reason is safe from it until the queue borrows; who loses its place was above that,
would be so again, and has no right to take it back.
"""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Amounts

Protection = Literal[
    "NotPreemptible",
    "SameQueue",
    "OtherQueue",
    "AboveDeserved",
    "WithinDeserved",
    "NotMoreImportant",
    "TooYoung",
]
"""Why a gang keeps its place. `AboveDeserved` is said of the one that wants it, `WithinDeserved` of
the one that has it."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A gang that wants a place, and what it asks for."""

    queue: str
    amounts: Amounts
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang that has a place, what it uses there, and since when."""

    queue: str
    amounts: Amounts
    started: float
    priority: int = 0
    preemptible: bool = True


def kept_from_reclaim(
    used: Ledger, claimant: Claimant, holder: Holder, now: float
) -> Protection | None:
    """What protects a gang from a queue that wants back what it deserves; None if nothing does.

    `used` is as it would be then: without those that were chosen before.
    """
    if not holder.preemptible:
        return "NotPreemptible"
    if holder.queue == claimant.queue:
        return "SameQueue"
    queue = used.forest.queues.get(holder.queue)
    if queue and now - holder.started < queue.reclaim_min_runtime:
        return "TooYoung"
    gaining, losing = apart(used, claimant.queue, holder.queue)
    if not gaining or not all(deserves(used, name, claimant.amounts) for name in gaining):
        return "AboveDeserved"
    wanted, beside = _wanted(used, claimant)
    if not losing or not all(
        _can_spare(used, name, holder.amounts, wanted, beside) for name in losing
    ):
        return "WithinDeserved"
    return None


def kept_from_preemption(
    used: Ledger, claimant: Claimant, holder: Holder, now: float
) -> Protection | None:
    """What protects a gang from a more important one of its queue; None if nothing does."""
    if not holder.preemptible:
        return "NotPreemptible"
    if holder.queue != claimant.queue:
        return "OtherQueue"
    if holder.priority >= claimant.priority:
        return "NotMoreImportant"
    queue = used.forest.queues.get(holder.queue)
    if queue and now - holder.started < queue.preempt_min_runtime:
        return "TooYoung"
    return None


def may_reclaim(used: Ledger, claimant: Claimant) -> bool:
    """Whether there is any right to reclaim: its own queue deserves what the gang asks for.

    Where this is not so, no holder needs to be looked at.
    """
    return deserves(used, claimant.queue, claimant.amounts)


def borrows(used: Ledger, claimant: Claimant, queue: str) -> bool:
    """Whether a queue uses more than it deserves of something that a gang may reclaim, and so do
    those above it: where this is not so, none of its gangs needs to be looked at."""
    wanted, _ = _wanted(used, claimant)
    _, losing = apart(used, claimant.queue, queue)
    return bool(losing) and all(
        any(used.of(name).get(each, 0) > _deserved(used, name).get(each, 0) for each in wanted)
        for name in losing
    )


def apart(used: Ledger, one: str, other: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of two queues, up to the first queue that both are part of."""
    mine, theirs = used.forest.path(one), used.forest.path(other)
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[-1 - shared] == theirs[-1 - shared]:
        shared += 1
    return mine[: len(mine) - shared], theirs[: len(theirs) - shared]


def deserves(used: Ledger, name: str, asked: Amounts, *, all_of_it: bool = False) -> bool:
    """Whether a queue deserves amounts beside what it uses, of the resources that it speaks of; or
    with all of it, if it used nothing."""
    queue = used.forest.queues.get(name)
    if queue is None:
        return False
    row: Amounts = {} if all_of_it else used.of(name)
    about = [each for each in queue.deserved if asked.get(each)]
    return bool(about) and all(
        row.get(each, 0) + asked[each] <= queue.deserved[each] for each in about
    )


def _wanted(used: Ledger, claimant: Claimant) -> tuple[set[str], set[str]]:
    """What a gang asks for of the resources that its queue deserves, and what it asks for beside
    them: of the latter its queue deserves nothing."""
    listed = _deserved(used, claimant.queue)
    asked = {resource for resource, amount in claimant.amounts.items() if amount}
    return asked & listed.keys(), asked - listed.keys()


def _can_spare(used: Ledger, name: str, given: Amounts, wanted: set[str], beside: set[str]) -> bool:
    """Whether a queue that loses amounts keeps what it deserves of what is wanted.

    Being above in one wanted resource is enough: who borrows GPUs cannot keep them for having few
    CPUs. But of what the other takes beside, without deserving any, it must keep what it deserves.
    Where the queue speaks of no wanted resource it must keep all that it does speak of.
    """
    deserved = _deserved(used, name)
    row = used.of(name)
    lost = {resource: amount for resource, amount in given.items() if amount}
    spared = {
        resource
        for resource, amount in lost.items()
        if row.get(resource, 0) - amount >= deserved.get(resource, 0)
    }
    useful = spared & wanted
    if not useful or any(each in beside and each not in spared for each in lost):
        return False
    return any(each in deserved for each in useful) or all(
        each in spared for each in lost if each in deserved
    )


def _deserved(used: Ledger, name: str) -> Amounts:
    queue = used.forest.queues.get(name)
    return queue.deserved if queue else {}
