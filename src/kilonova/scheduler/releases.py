"""Waits for capacity that terminating pods release, and decides what becomes of those that do not.

A pod that was evicted keeps its devices until it is gone, which may take long: its grace period, or
a kubelet that does not answer. Until then its capacity is **being released**: it belongs to the
gang for which it was evicted, and nobody is evicted a second time for it.

- The gang keeps its claim while its victims terminate. Whenever other capacity becomes free, the
  gang moves its claim there instead, if all of it fits.
- A victim is **overdue** when it should have been gone (its `deletionTimestamp`) for longer than
  five times `patience`. Then the claim is given up, so that the rest of it blocks nobody: the
  victim counts as using what it has, like any other pod, and the gang waits in its turn.
- While victims of a gang are overdue it evicts nobody else, unless their nodes will not do for it
  any more (cordoned, tainted, gone): then it may look for other victims.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.kube import Store
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.filters import Reason, reasons
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.reading.gangs import lone_name
from kilonova.scheduler.reading.reservations import is_reservation
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PATIENCES = 5.0
"""So many times the usual patience a claim is kept for a gang whose victims should be gone."""
_LOOKS = 5.0
"""Seconds after which a gang that waits looks again whether something else changed."""


class Releases:
    """Gangs that wait for their victims to terminate."""

    def __init__(
        self,
        world: World,
        evictions: Evictions,
        nominations: Nominations,
        place: Callable[[Gang], list[Booking] | None],
        told: Callable[[Gang, Sequence[str]], None],
        now: Callable[[], datetime],
        *,
        patience: float,
    ) -> None:
        """`place` books a gang on capacity that is free; `told` hears for which pods it waits."""
        self._world = world
        self._evictions = evictions
        self._nominations = nominations
        self._place = place
        self._told = told
        self._now = now
        self._patience = patience
        self._overdue: dict[str, tuple[str, ...]] = {}
        """Overdue victims, by the gang for which they were evicted."""

    def attach(self, pods: Store[Pod], nodes: Store[Node], gangs: Store[PodGang]) -> None:
        """Has gangs read anew when something happens to their overdue victims, and forgets those
        that are gone."""
        pods.subscribe(self._pod_changed)
        nodes.subscribe(self._node_changed)
        gangs.subscribe(self._gang_changed)

    async def make_way(self, placement: Placement) -> bool | Placement:
        """Whether all are gone who were in the way of a placement; or the placement that takes its
        place, on capacity that was free sooner."""
        left = self._left(placement)
        if not left:
            return True
        self._told(placement.gang, left)
        cleared = await self._evictions.clear(placement) or await self._wait(placement)
        if cleared is True and not all(map(self._world.unbound, placement.bookings)):
            await self._nominations.withdraw(placement)  # its claim was taken meanwhile
            return False
        return cleared

    def outcome(self, placement: Placement) -> bool | None:
        """Whether all are gone who were in the way of a reservation, whose victims were told to go;
        None while they terminate."""
        left = self._left(placement)
        overdue = [pod for pod in left if self._is_overdue(pod)]
        if overdue:
            self._note_overdue(placement, overdue)
            return False
        if not all(map(self._world.fits, placement.bookings)):
            return False
        return None if left else True

    def forget(self, gang: str) -> None:
        """A gang, or a reservation, is gone."""
        self._overdue.pop(gang, None)

    def patient(self, gang: Gang) -> Gang:
        """A gang that waits; it evicts nobody while its victims are overdue."""
        victims = self._overdue.get(gang.name)
        if victims is None:
            return gang
        if not any(self._may_release(victim, gang) for victim in victims):
            del self._overdue[gang.name]
            return gang
        return replace(gang, preempts=False)

    async def _wait(self, placement: Placement) -> bool | Placement:
        """Until victims that are terminating are gone, or are not worth waiting for."""
        world, tried = self._world, -1
        while left := self._left(placement):
            overdue = [pod for pod in left if self._is_overdue(pod)]
            if overdue:
                await self._give_up(placement, overdue)
                return False
            if not self._is_wanted(placement):
                await self._nominations.withdraw(placement)
                return False
            if tried != world.gains:
                elsewhere = world.relocate(placement, self._place)
                if elsewhere is not None:
                    _log.info("gang does not wait for its victims", gang=placement.gang.name)
                    return elsewhere
                tried = world.gains
            self._told(placement.gang, left)
            await world.leavers.changed(_LOOKS)
        return True

    async def _give_up(self, placement: Placement, overdue: list[str]) -> None:
        self._note_overdue(placement, overdue)
        await self._nominations.withdraw(placement)

    def _note_overdue(self, placement: Placement, overdue: list[str]) -> None:
        gang = placement.gang.name
        _log.warning("victims do not terminate, claim is given up", gang=gang, pods=overdue)
        if placement.evicted or any(map(self._is_nominated, placement.bookings)):
            self._overdue[gang] = tuple(overdue)
        self._world.keep(overdue)

    def _left(self, placement: Placement) -> list[str]:
        """Victims that are not gone, and who else leaves the nodes of a placement."""
        victims = [pod for unit in placement.evicted for pod in unit.pods]
        names = self._world.cluster.snapshot.names
        nodes = {names[booking.row] for booking in placement.bookings}
        leaving = self._world.leavers.still(victims, nodes)
        counted = (pod for pod in victims if pod not in leaving and self._is_terminating(pod))
        return [*leaving, *counted]

    def _is_wanted(self, placement: Placement) -> bool:
        """Whether a placement still is what it was decided to be, on nodes that will do."""
        world = self._world
        return all(
            world.unbound(booking) is not None and world.fits(booking) and self._will_do(booking)
            for booking in placement.bookings
        )

    def _will_do(self, booking: Booking) -> bool:
        row = np.array([booking.row], np.intp)
        return int(reasons(self._world.cluster.snapshot, booking.shape, row)[0]) == Reason.FITS

    def _may_release(self, victim: str, gang: Gang) -> bool:
        """Whether a victim terminates on a node that would do for a gang."""
        pod, snapshot = self._world.find(victim), self._world.cluster.snapshot
        if pod is None or not self._is_terminating(victim) or pod.spec.node_name not in snapshot:
            return False
        row = np.array([snapshot.row(pod.spec.node_name)], np.intp)
        shapes = {member.shape for group in gang.groups for member in group.members}
        return any(int(reasons(snapshot, shape, row)[0]) == Reason.FITS for shape in shapes)

    def _is_terminating(self, key: str) -> bool:
        pod = self._world.find(key)
        return pod is not None and not pod.ended and pod.metadata.deletion_timestamp is not None

    def _is_overdue(self, key: str) -> bool:
        pod = self._world.find(key)
        if pod is None or pod.metadata.deletion_timestamp is None:
            return False
        due = parse_time(pod.metadata.deletion_timestamp).timestamp()
        return self._now().timestamp() >= due + _PATIENCES * self._patience

    def _is_nominated(self, booking: Booking) -> bool:
        pod = self._world.find(booking.pod)
        return pod is not None and bool(pod.status.nominated_node_name)

    # What the caches tell.

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if self._overdue and pod is not None and (new is None or new.ended):
            self._overdue.pop(lone_name(pod.key), None)
            self._touch(gang for gang, victims in self._overdue.items() if pod.key in victims)

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None and old is not None:
            self._overdue.pop(f"{old.metadata.namespace}/{old.metadata.name}", None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._overdue and (old is None or new is None or old.spec != new.spec):
            self._touch(self._overdue)

    def _touch(self, gangs: Iterable[str]) -> None:
        for gang in list(gangs):
            if is_reservation(gang):
                self._world.reservations.touch(gang)
            else:
                self._world.touch(gang)
