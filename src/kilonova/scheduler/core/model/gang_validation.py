"""Checks a gang for errors that make it unschedulable on any cluster."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from kilonova.scheduler.core.model.gangs import Gang, Group


@dataclass(frozen=True, slots=True)
class InvalidGang:
    """The invalid field of a gang, its value, and how to fix it."""

    field: str
    value: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field} is {self.value}: {self.fix}"


def validate_gang(gang: Gang, placed_pods: Container[str]) -> InvalidGang | None:
    """The first error of a gang; `placed_pods` are the pods that already have a node."""
    members = [member.pod for group in gang.groups for member in group.members]
    if not members:
        return InvalidGang("groups", "without pods to place", "add pods, or delete the gang")
    if (name := _find_duplicate(group.name for group in gang.groups)) is not None:
        return InvalidGang("groups[].name", f'twice "{name}"', "give each group a name of its own")
    if (pod := _find_duplicate(members)) is not None:
        return InvalidGang("groups[].members", f'twice "{pod}"', "name each pod once")
    for pod in members:
        if pod in placed_pods:
            return InvalidGang(
                "groups[].members", f'"{pod}", which is already placed', "wait until it is deleted"
            )
    return next(
        (problem for group in gang.groups if (problem := _validate_group(group)) is not None), None
    )


def _validate_group(group: Group) -> InvalidGang | None:
    where = f"groups[{group.name}]"
    pods = len(group.members) + len(group.placed_nodes)
    if group.minimum > pods:
        fix = f"it has {pods} pods: lower the minimum, or wait for the other pods"
        return InvalidGang(f"{where}.minimum", str(group.minimum), fix)
    if group.segments is not None and group.segments.size < 1:
        return InvalidGang(f"{where}.segments.size", str(group.segments.size), "make it at least 1")
    for member in group.members:
        request = member.shape.gpu
        if request is not None and (request.count < 1 or request.milli < 0):
            value = f"{request.count} × {request.milli} milli"
            return InvalidGang(
                f"{where}.members[{member.pod}].gpu", value, "request at least one GPU, or none"
            )
    return None


def _find_duplicate(names: Iterable[str]) -> str | None:
    listed = list(names)
    if len(set(listed)) == len(listed):
        return None
    return min(name for name, count in Counter(listed).items() if count > 1)
