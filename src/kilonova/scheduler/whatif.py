"""What if more pods came: where would they go now? Pure; the picture stays as it is."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from kilonova.api.podgang import PodGang
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement, Plan, Planner, Refusal, Reservation
from kilonova.scheduler.decisions import Decisions, decisions_of
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.gangs import (
    NotYet,
    not_there,
    plain_name,
    pods_of_gang,
    read_gang,
    read_lone_pod,
)
from kilonova.scheduler.reading.podgroups import (
    Group,
    GroupRef,
    gang_of_group,
    group_named,
    ref_of,
)
from kilonova.scheduler.reading.reservations import named_by, reservation_name


def gangs_of_groups(
    groups: Iterable[Group], pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> list[PodGang]:
    """The gangs that PodGroups of others would be, of pods that no PodGang lists."""
    listed = {pod for gang in gangs for pod in pods_of_gang(gang)}
    members: dict[GroupRef | None, list[Pod]] = {}
    for pod in pods:
        if pod.key not in listed:
            members.setdefault(group_named(pod), []).append(pod)
    found = (gang_of_group(group, members.get(ref_of(group), ())) for group in groups)
    return [gang for gang in found if gang is not None]


def what_if(
    picture: Picture,
    pods: Iterable[Pod],
    gangs: Iterable[PodGang],
    groups: Collection[GroupRef] = (),
) -> Decisions:
    """What would be decided about new pods, beside those that wait already. `groups` are the
    PodGroups that come with them.

    Gangs that depend on where their base stands are decided about after it, as they would be.
    """
    cluster = picture.cluster()
    planner = picture.planner(cluster)
    coming = _Coming(cluster, planner, list(pods), list(gangs), groups, picture.now)
    coming.decide_independent(picture.waiting)
    coming.decide_dependent()
    plan = Plan(tuple(coming.placements), tuple(coming.refusals), coming.reservation)
    return decisions_of(replace(picture, not_yet=coming.not_yet), cluster, plan)


def names_of(pods: Iterable[Pod], gangs: Iterable[PodGang]) -> Iterator[str]:
    """Pods and gangs, as NAMESPACE/NAME."""
    yield from (pod.key for pod in pods)
    yield from map(_name, gangs)


class _Coming:
    """New gangs, and what was decided about them."""

    def __init__(
        self,
        cluster: Cluster,
        planner: Planner,
        pods: Sequence[Pod],
        gangs: Sequence[PodGang],
        groups: Collection[GroupRef],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._planner = planner
        self._now = now
        self._pods = {pod.key: pod for pod in pods}
        self._gangs = sorted(gangs, key=_name)
        self._groups = groups
        self.placements: list[Placement] = []
        self.refusals: list[Refusal] = []
        self.not_yet: dict[str, NotYet] = {}
        self.reservation: Reservation | None = None

    def decide_independent(self, waiting: Iterable[Gang]) -> None:
        """Decides about those that depend on nobody, together with all that wait already."""
        new: list[Gang] = []
        for pod in self._lone():
            ref = group_named(pod)
            if ref is None or ref in self._groups:
                self._take(pod.key, read_lone_pod(pod), new)
            else:
                self._take(pod.key, not_there(ref), new)
        for gang in self._gangs:
            if not _depends(gang):
                self._take(_name(gang), self._read(gang), new)
        self._decide(new, waiting)

    def decide_dependent(self) -> None:
        """Decides about the others, one after the other."""
        for gang in filter(_depends, self._gangs):
            new: list[Gang] = []
            self._take(_name(gang), self._read(gang), new)
            self._decide(new)

    def _decide(self, new: Sequence[Gang], waiting: Iterable[Gang] = ()) -> None:
        names = {gang.name for gang in new}
        plan = self._planner.decide([*waiting, *new], self._now)
        self.placements += [each for each in plan.placements if each.gang.name in names]
        self.refusals += [each for each in plan.refusals if each.gang.name in names]
        self.reservation = self.reservation or plan.reservation

    def _take(self, name: str, read: Gang | NotYet, new: list[Gang]) -> None:
        if isinstance(read, NotYet):
            self.not_yet[name] = read
        else:
            new.append(self._led(read))

    def _led(self, gang: Gang) -> Gang:
        """A gang with the room that is kept for whoever names it as this one does."""
        found = next((each for each in self._gangs if _name(each) == gang.name), None)
        pods = [plain_name(gang.name)] if found is None else pods_of_gang(found)
        said = named_by(found, filter(None, map(self._pods.get, pods)))
        namespace, _, _ = plain_name(gang.name).partition("/")
        return replace(gang, room=reservation_name(namespace, said)) if said else gang

    def _lone(self) -> Iterator[Pod]:
        referred = {pod for gang in self._gangs for pod in pods_of_gang(gang)}
        return (pod for key, pod in sorted(self._pods.items()) if key not in referred)

    def _read(self, gang: PodGang) -> Gang | NotYet:
        base = gang.spec.base_ref
        return read_gang(
            gang,
            self._pods.get,
            base=None if base is None else self._nodes(f"{base.namespace}/{base.name}"),
        )

    def _nodes(self, gang: str) -> tuple[str, ...] | None:
        """Where a gang stands; None if it does not."""
        standing = self._cluster.standing.get(gang)
        if standing is None:
            return None
        snapshot = self._cluster.snapshot
        rows = {snapshot.bookings[pod].row for pod in standing.pods}
        return tuple(sorted(snapshot.names[row] for row in rows))


def _name(gang: PodGang) -> str:
    return f"{gang.metadata.namespace}/{gang.metadata.name}"


def _depends(gang: PodGang) -> bool:
    return gang.spec.base_ref is not None
