"""Which pod has which GPUs of a machine. Pure.

A pod that its scheduler gave devices has exactly those. Any other has the first that are free, and
goes out of the way of one that was given them: nobody has told it which it has.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kilonova.api.gpus import Assignment

_WHOLE = Assignment(0).milli


class Holding(msgspec.Struct, frozen=True, gc=False):
    """What a pod has, and whether its scheduler said so."""

    assignments: tuple[Assignment, ...]
    given: bool

    def has(self, gpu: int) -> bool:
        return any(each.index == gpu for each in self.assignments)


Holdings = Mapping[str, Holding]
"""By the uid of the pod."""


def with_any(
    holdings: Holdings, uid: str, count: int, healthy: Sequence[int]
) -> dict[str, Holding] | None:
    """… and the first free ones for a pod; None if there are too few."""
    free = [gpu for gpu in healthy if not any(each.has(gpu) for each in holdings.values())]
    if len(free) < count:
        return None
    return {**holdings, uid: Holding(tuple(map(Assignment, free[:count])), given=False)}


def with_given(
    holdings: Holdings, uid: str, assignments: tuple[Assignment, ...], healthy: Sequence[int]
) -> dict[str, Holding] | None:
    """… and the devices that a pod was given; None where others have them."""
    others = [
        each for holding in holdings.values() if holding.given for each in holding.assignments
    ]
    if any(_collide(new, others) for new in assignments):
        return None
    found: dict[str, Holding] | None = {**holdings, uid: Holding(assignments, given=True)}
    wanted = {each.index for each in assignments}
    in_the_way = [
        (other, len(holding.assignments))
        for other, holding in holdings.items()
        if not holding.given and any(each.index in wanted for each in holding.assignments)
    ]
    for other, _ in in_the_way:
        del found[other]
    for other, count in in_the_way:
        found = with_any(found, other, count, healthy)
        if found is None:
            return None
    return found


def _collide(new: Assignment, others: Iterable[Assignment]) -> bool:
    """Instances may be beside instances, and shares beside shares up to the whole."""
    beside = [each for each in others if each.index == new.index]
    if new.profile:
        return any(not each.profile or each.start == new.start for each in beside)
    return any(each.profile for each in beside) or sum(e.milli for e in beside) + new.milli > _WHOLE
