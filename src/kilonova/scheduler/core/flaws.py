"""What is wrong with a gang as it was written: nobody could place it."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from kilonova.scheduler.core.gangs import Gang, Group


@dataclass(frozen=True, slots=True)
class Flaw:
    """A field of a gang, what it says, and what to do about it."""

    field: str
    value: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field} is {self.value}: {self.fix}"


def flaw_of(gang: Gang, booked: Container[str]) -> Flaw | None:
    """The first flaw of a gang; `booked` are pods that have a place."""
    members = [member.pod for group in gang.groups for member in group.members]
    if not members:
        return Flaw("groups", "without pods to place", "add pods, or let it be")
    if (name := _twice(group.name for group in gang.groups)) is not None:
        return Flaw("groups[].name", f'twice "{name}"', "give each group a name of its own")
    if (pod := _twice(members)) is not None:
        return Flaw("groups[].members", f'twice "{pod}"', "name each pod once")
    for pod in members:
        if pod in booked:
            return Flaw("groups[].members", f'"{pod}", which has a place', "wait until it is gone")
    return next((flaw for group in gang.groups if (flaw := _of_group(group)) is not None), None)


def _of_group(group: Group) -> Flaw | None:
    where = f"groups[{group.name}]"
    pods = len(group.members) + len(group.placed)
    if group.minimum > pods:
        fix = f"it has {pods} pods: lower the minimum, or wait for the others"
        return Flaw(f"{where}.minimum", str(group.minimum), fix)
    if group.segments is not None and group.segments.size < 1:
        return Flaw(f"{where}.segments.size", str(group.segments.size), "make it at least 1")
    for member in group.members:
        ask = member.shape.gpu
        if ask is not None and (ask.count < 1 or ask.milli < 0):
            said = f"{ask.count} × {ask.milli} milli"
            return Flaw(f"{where}.members[{member.pod}].gpu", said, "ask for at least one, or none")
    return None


def _twice(names: Iterable[str]) -> str | None:
    listed = list(names)
    if len(set(listed)) == len(listed):
        return None
    return min(name for name, count in Counter(listed).items() if count > 1)
