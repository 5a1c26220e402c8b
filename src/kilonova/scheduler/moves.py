"""Moves pods so that nodes become free: for a gang that waits for room, and when nobody does.

Now and then a copy of the cluster is looked at, aside from the loop. What is worth it and within
the limits is carried out: the new room is held, those who move are evicted, and the pods that are
made in their place are bound there. Nobody is evicted for whom there is no room elsewhere, and a
cluster in which nothing happened since the last look is not looked at again for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime

from kilonova.api.podgang import PodGang
from kilonova.scheduler.announcing import Announcements
from kilonova.scheduler.carrying import Carrier
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.fit import LearntFit
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import NoRoom, Planner, Policy, Refusal
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.holds import Hold
from kilonova.scheduler.movelimits import Made, MoveLimits, allowance
from kilonova.scheduler.movesearch import Found, in_order, moves_worth_it
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.recalling import held_before, was_left
from kilonova.scheduler.world import World

_ANYWAY = 3600.0
"""Seconds after which a cluster is looked at though nothing happened: protection ends with time."""

Aside = Callable[[Callable[[], Found]], Awaitable[Found]]
"""Runs a search beside the loop."""


class Moves:
    """A part: looks for moves while it runs, and has them carried out."""

    name = "moves"

    def __init__(
        self,
        world: World,
        carrier: Carrier,
        announcements: Announcements,
        limits: MoveLimits | None,
        policy: Policy,
        weights: Mapping[str, float],
        fit: LearntFit,
        now: Callable[[], datetime],
        errors: ErrorReporter,
        aside: Aside = asyncio.to_thread,
    ) -> None:
        """Without `limits` nothing is moved; what was begun before is finished all the same."""
        self._world = world
        self._carrier = carrier
        self._announcements = announcements
        self._limits = limits
        self._policy = policy
        self._weights = weights
        self._fit = fit
        self._now = now
        self._errors = errors
        self._aside = aside
        self._refused: dict[str, Gang] = {}
        """Gangs for which there was no room when they were tried last."""
        self._made: list[Made] = []
        self._seen: object = None
        """What was there when the cluster was last looked at in vain."""
        self._seen_at = 0.0
        self._recalled: list[Hold] = []
        self._left: list[str] = []
        """Pods that a scheduler before us was about to move and did not."""

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Gangs that got no place in a round."""
        for refusal in refusals:
            if isinstance(refusal.why, NoRoom):
                self._refused[refusal.gang.name] = refusal.gang

    def recall(self, pods: Sequence[Pod], gangs: Iterable[PodGang]) -> None:
        """Holds what a scheduler before us held, before anything is decided."""
        now = self._now().timestamp()
        for hold in held_before(self._world.cluster.snapshot, pods, gangs):
            self._carrier.holds.take(hold, now)
            self._recalled.append(hold)
        self._left = [pod.key for pod in pods if was_left(pod)]

    async def run(self) -> None:
        """Looks for ever; what is under way at the end is left to the next scheduler."""
        async with asyncio.TaskGroup() as group:
            for hold in self._recalled:
                group.create_task(self._contained(self._carrier.wait(hold)))
            group.create_task(self._announcements.withdraw(self._left))
            if self._limits is None:
                await asyncio.Future[None]()
                return
            while True:
                await asyncio.sleep(self._limits.every)
                await self._contained(self._move(self._limits, group))

    async def _move(self, limits: MoveLimits, group: asyncio.TaskGroup) -> None:
        found = await self._look(limits)
        holds = None if found is None else self._carrier.begin(found)
        if found is None or holds is None:
            return
        now = self._now().timestamp()
        self._made += [Made(now, move.work) for move in found.consolidation.moves]
        group.create_task(self._contained(self._carrier.finish(found, holds)))

    async def _contained(self, work: Awaitable[None]) -> None:
        await self._errors.contain("moves", "", work)

    async def _look(self, limits: MoveLimits) -> Found | None:
        world, now = self._world, self._now().timestamp()
        holds, snapshot = self._carrier.holds, world.cluster.snapshot
        arrived = self._fit.arrivals.seen
        budget = allowance(limits, self._made, len(holds), arrived, now)
        waiting = in_order(self._waiting())
        changes, guards = snapshot.changes.position, dict(world.cluster.budgets)
        seen = changes, world.gains, guards, budget.moves, [gang.name for gang in waiting]
        if not budget.moves or (seen == self._seen and now < self._seen_at + _ANYWAY):
            return None
        copy, fit = world.cluster.copy(), self._fit.learnt(snapshot)
        planner = Planner(copy, default_scoring(fit).weighed(self._weights), self._policy)
        keep = {*holds.names, *world.not_yet}
        found = await self._aside(
            lambda: moves_worth_it(copy, planner, waiting, budget, now, worth=fit.worth, keep=keep)
        )
        if found.consolidation.moves:
            return found
        self._seen, self._seen_at = seen, now
        return None

    def _waiting(self) -> Iterable[Gang]:
        """Who waits for room."""
        waiting = self._world.waiting
        self._refused = {
            name: gang for name, gang in self._refused.items() if waiting.get(name) is gang
        }
        return self._refused.values()
