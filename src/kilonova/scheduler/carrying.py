"""Carries moves out: holds the new room, tells those who move to go, and binds who comes back.

What is decided about a copy of the cluster may be old by now, so all of it is checked again before
anything is done. Those who move say first on which node room is held for those after them: a
scheduler that comes after us goes on from there (`recalling`).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from kilonova.kube.logging import get_logger
from kilonova.scheduler.announcing import Announcements
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.relocating import Move
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.core.victims import Unit
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.holds import Hold, Holds, hold_for, nodes_of
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.movesearch import Found
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.reading.gangs import lone_name, pod_of_lone, stands
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_LONE = lone_name("")


class Carrier:
    """Moves that are under way."""

    def __init__(
        self,
        world: World,
        bind: Callable[[Placement], None],
        evictions: Evictions,
        nominations: Nominations,
        announcements: Announcements,
        metrics: SchedulerMetrics,
        now: Callable[[], datetime],
        *,
        patience: float,
        return_within: float,
    ) -> None:
        """`patience` is for those who have to go, `return_within` for those who come after."""
        self._world = world
        self._bind = bind
        self._evictions = evictions
        self._nominations = nominations
        self._announcements = announcements
        self._metrics = metrics
        self._now = now
        self._patience = patience
        self._return_within = return_within
        self.holds = Holds(world.cluster)

    def begin(self, found: Found) -> list[Hold] | None:
        """Holds the new room, and that which is made for a gang that waits; None if something
        changed meanwhile, and nothing is done."""
        if not self._is_true(found):
            return None
        world, now = self._world, self._now().timestamp()
        moves, bookings = found.consolidation.moves, found.consolidation.bookings
        world.let_go([pod for move in moves for pod in move.pods])
        holds = [hold_for(move, self._owner(move)) for move in moves]
        for hold in holds:
            self.holds.take(hold, now)
            self._metrics.moved("begun")
            _log.info("gang moves", gang=hold.gang, nodes=self._nodes(hold))
        if found.gang is not None:
            world.cluster.snapshot.book_all(bookings)
            world.cluster.stand(found.gang, bookings, now)
            world.assume(Placement(found.gang, bookings))
        return holds

    async def finish(self, found: Found, holds: list[Hold]) -> None:
        """Tells those who move to go, and binds the gang for which they do; then waits for those
        who come in their place."""
        makes = None
        if found.gang is not None:
            makes = Placement(found.gang, found.consolidation.bookings)
            self._bind(makes)
        why = f"so that {found.gang.name} fits" if found.gang else "so that nodes become free"
        try:
            async with asyncio.timeout(self._patience):
                if makes is not None:
                    await self._nominations.write(makes)
                for hold in holds:
                    await self._announcements.write(self._nodes(hold))
        except TimeoutError:
            for hold in holds:
                self._stay(hold, hold.pods)
            return
        gone = await asyncio.gather(*(self._clear(hold, why) for hold in holds))
        if makes is not None and not all(gone):
            await self._nominations.withdraw(makes)
        await asyncio.gather(*map(self.wait, holds))

    async def wait(self, hold: Hold) -> None:
        """Holds room until it is taken by those who come back, or for long enough."""
        await asyncio.sleep(self._return_within)
        if self.holds.drop(hold):
            self._metrics.moved("unclaimed")
            _log.warning("nobody comes back who was moved", gang=hold.gang)

    def returned(self) -> Iterator[Placement]:
        """Gangs that came back after a move, booked where room was held for them."""
        for hold in self.holds:
            gang = self._back(hold)
            if gang is None:
                continue
            placement = self.holds.give(gang, hold, self._now().timestamp())
            if placement is not None:
                yield placement
                if hold.gang not in self.holds.names:
                    self._metrics.moved("returned")

    async def _clear(self, hold: Hold, why: str) -> bool:
        """Whether all went who were to move; those who did not stay."""
        nodes = self._nodes(hold)
        told = {
            pod: ("Moved", f"moves, {why}; room is held on {node}") for pod, node in nodes.items()
        }
        cost = hold.standing.priority, True, 0.0, 0, len(hold.pods), hold.gang
        unit = Unit(hold.gang, hold.pods, cost, {})
        gone = await self._evictions.clear(Placement(hold.standing, hold.bookings, (unit,)), told)
        if not gone:
            find = self._world.find
            staying = [pod for pod in hold.pods if (here := find(pod)) and stands(here)]
            self._stay(hold, staying)
            await self._announcements.withdraw(staying)
        return gone

    def _stay(self, hold: Hold, pods: Iterable[str]) -> None:
        """Some did not go after all."""
        pods = list(pods)
        self._world.keep(pods)
        self.holds.drop(hold, pods)
        self._metrics.moved("stayed")
        _log.info("gang stays", gang=hold.gang, pods=pods)

    def _nodes(self, hold: Hold) -> dict[str, str]:
        return dict(nodes_of(hold, self._world.cluster.snapshot.names))

    def _owner(self, move: Move) -> str:
        """Who makes a pod anew that is alone."""
        pod = self._world.find(pod_of_lone(move.gang.name))
        owner = pod.metadata.controller if pod is not None else None
        return owner.uid if owner is not None and move.gang.name.startswith(_LONE) else ""

    def _back(self, hold: Hold) -> Gang | None:
        waiting = self._world.waiting
        if not hold.owner:
            return waiting.get(hold.gang)
        return next((gang for gang in waiting.values() if self._is_after(gang, hold)), None)

    def _is_after(self, gang: Gang, hold: Hold) -> bool:
        if not gang.name.startswith(_LONE):
            return False
        pod = self._world.find(pod_of_lone(gang.name))
        owner = pod.metadata.controller if pod is not None else None
        return owner is not None and owner.uid == hold.owner

    # What was decided, and is still so.

    def _is_true(self, found: Found) -> bool:
        world, snapshot = self._world, self._world.cluster.snapshot
        moves, bookings = found.consolidation.moves, list(found.consolidation.bookings)
        if found.gang is not None and world.waiting.get(found.gang.name) is not found.gang:
            return False
        if not all(self._may_go(move) for move in moves):
            return False
        bookings += [booking for move in moves for booking in move.bookings]
        if not all(self._is_there(found, booking) for booking in bookings):
            return False
        mark = snapshot.mark()
        snapshot.release_all([pod for move in moves for pod in move.pods])
        fits = self.holds.fit(bookings)
        snapshot.undo(mark)
        return fits

    def _may_go(self, move: Move) -> bool:
        """Whether all who move stand where they stood."""
        world = self._world
        booked = world.cluster.snapshot.bookings
        for booking in move.leaves:
            pod, now = world.find(booking.pod), booked.get(booking.pod)
            if pod is None or not stands(pod) or pod.key in world.leavers:
                return False
            if now is None or (now.row, now.gang) != (booking.row, booking.gang):
                return False
        standing = world.cluster.standing.get(move.gang.name)
        return standing is not None and standing.pods.keys() >= set(move.pods)

    def _is_there(self, found: Found, booking: Booking) -> bool:
        """Whether a row is still the node that it was."""
        names = self._world.cluster.snapshot.names
        row = booking.row
        alive = bool(self._world.cluster.snapshot.alive[row]) if row < len(names) else False
        return alive and names[row] == found.names[row]
