"""The rules of preemption and reclaim: which running gangs are protected from a preemptor.

- **Reclaim**: a queue gets back what it deserves from queues that use more than they deserve.
  The reclaiming queue stays within its deserved amounts, the other one keeps its deserved amounts,
  and so do their ancestors up to the first common one. Of a resource that it does not list a queue
  deserves nothing: it never takes that from a queue which deserves it.
- **Preemption**: a gang may be evicted for one of higher priority in the same queue.

Both spare a gang until the minimum run time of its queue has passed.

Reclaim cannot cycle. A gang placed by reclaim stays within what its queue deserves, and therefore
is protected from reclaim until the queue borrows; an evicted gang was above that, would be so
again, and may not reclaim.
"""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import ResourceAmounts

Protection = Literal[
    "NotPreemptible",
    "SameQueue",
    "OtherQueue",
    "AboveDeserved",
    "WithinDeserved",
    "PriorityNotHigher",
    "MinRuntime",
]
"""Why a gang is protected. `AboveDeserved` refers to the preemptor's queue, `WithinDeserved` to the
victim's."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The pending gang, and what it requests."""

    queue: str
    amounts: ResourceAmounts
    priority: int = 0


@dataclass(frozen=True, slots=True)
class PotentialVictim:
    """A running gang, what it uses, and its start time."""

    queue: str
    amounts: ResourceAmounts
    started: float
    priority: int = 0
    preemptible: bool = True


def find_reclaim_protection(
    used: Ledger, preemptor: Preemptor, victim: PotentialVictim, now: float
) -> Protection | None:
    """What protects a gang from reclaim by another queue; None if nothing does.

    `used` is the usage without the victims chosen before.
    """
    if not victim.preemptible:
        return "NotPreemptible"
    if victim.queue == preemptor.queue:
        return "SameQueue"
    queue = used.forest.queues.get(victim.queue)
    if queue and now - victim.started < queue.reclaim_min_runtime:
        return "MinRuntime"
    gaining, losing = split_queue_paths(used, preemptor.queue, victim.queue)
    if not gaining or not all(
        is_within_deserved(used, name, preemptor.amounts) for name in gaining
    ):
        return "AboveDeserved"
    wanted, others = _split_requested_resources(used, preemptor)
    if not losing or not all(
        _can_spare(used, name, victim.amounts, wanted, others) for name in losing
    ):
        return "WithinDeserved"
    return None


def find_preemption_protection(
    used: Ledger, preemptor: Preemptor, victim: PotentialVictim, now: float
) -> Protection | None:
    """What protects a gang from preemption within its queue; None if nothing does."""
    if not victim.preemptible:
        return "NotPreemptible"
    if victim.queue != preemptor.queue:
        return "OtherQueue"
    if victim.priority >= preemptor.priority:
        return "PriorityNotHigher"
    queue = used.forest.queues.get(victim.queue)
    if queue and now - victim.started < queue.preempt_min_runtime:
        return "MinRuntime"
    return None


def can_reclaim(used: Ledger, preemptor: Preemptor) -> bool:
    """Whether the gang may reclaim at all: its own queue deserves what it requests.

    If not, no potential victim needs to be examined.
    """
    return is_within_deserved(used, preemptor.queue, preemptor.amounts)


def is_borrowing(used: Ledger, preemptor: Preemptor, queue: str) -> bool:
    """Whether a queue, and each of its ancestors, uses more than it deserves of a resource that the
    gang may reclaim: if not, none of its gangs needs to be examined."""
    wanted, _ = _split_requested_resources(used, preemptor)
    _, losing = split_queue_paths(used, preemptor.queue, queue)
    return bool(losing) and all(
        any(
            used.amounts_of(name).get(each, 0) > _get_deserved(used, name).get(each, 0)
            for each in wanted
        )
        for name in losing
    )


def split_queue_paths(
    used: Ledger, one: str, other: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of two queues, up to their first common ancestor."""
    mine, theirs = used.forest.path(one), used.forest.path(other)
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[-1 - shared] == theirs[-1 - shared]:
        shared += 1
    return mine[: len(mine) - shared], theirs[: len(theirs) - shared]


def is_within_deserved(
    used: Ledger, name: str, requested: ResourceAmounts, *, ignore_usage: bool = False
) -> bool:
    """Whether a queue deserves the requested amounts in addition to its usage, for the resources
    that it lists; with `ignore_usage`, as if it used nothing."""
    queue = used.forest.queues.get(name)
    if queue is None:
        return False
    row: ResourceAmounts = {} if ignore_usage else used.amounts_of(name)
    about = [each for each in queue.deserved if requested.get(each)]
    return bool(about) and all(
        row.get(each, 0) + requested[each] <= queue.deserved[each] for each in about
    )


def _split_requested_resources(used: Ledger, preemptor: Preemptor) -> tuple[set[str], set[str]]:
    """The requested resources that the gang's queue lists as deserved, and the others: of the
    latter it deserves nothing."""
    listed = _get_deserved(used, preemptor.queue)
    requested = {resource for resource, amount in preemptor.amounts.items() if amount}
    return requested & listed.keys(), requested - listed.keys()


def _can_spare(
    used: Ledger,
    name: str,
    taken_amounts: ResourceAmounts,
    deserved_resources: set[str],
    undeserved_resources: set[str],
) -> bool:
    """Whether a queue that loses amounts keeps what it deserves of the requested resources.

    Exceeding one requested resource is enough: a queue that borrows GPUs is not protected because
    it uses few CPUs. But of resources that the preemptor takes without deserving any, it must keep
    what it deserves. A queue that lists none of the requested resources must keep all that it
    lists.
    """
    deserved = _get_deserved(used, name)
    row = used.amounts_of(name)
    lost = {resource: amount for resource, amount in taken_amounts.items() if amount}
    spared = {
        resource
        for resource, amount in lost.items()
        if row.get(resource, 0) - amount >= deserved.get(resource, 0)
    }
    useful = spared & deserved_resources
    if not useful or any(each in undeserved_resources and each not in spared for each in lost):
        return False
    return any(each in deserved for each in useful) or all(
        each in spared for each in lost if each in deserved
    )


def _get_deserved(used: Ledger, name: str) -> ResourceAmounts:
    queue = used.forest.queues.get(name)
    return queue.deserved if queue else {}
