"""Gangs come, run and end: none that fits the empty cluster waits for ever.

`KILONOVA_WORLDS` is how many such stories are told (`make faults`: more of them), `KILONOVA_SEED`
makes others.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.exact import Exact
from tests.scheduler.core.naive import check_counts, check_queues
from tests.scheduler.core.placement_worlds import LEVELS, gang_of, put_nodes
from tests.scheduler.core.random_clusters import SCORING
from tests.scheduler.core.waiting import waiting

STORIES = int(os.environ.get("KILONOVA_WORLDS", "100"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))
QUEUES = ("default", "a", "b")
MOST_CYCLES = 200


@dataclass
class Story:
    """A cluster, and gangs by when they come, each with how long it will run."""

    cluster: Cluster
    coming: list[tuple[float, float, Gang]]
    policy: Policy
    known: dict[str, Gang] = field(default_factory=dict[str, Gang])
    ends: dict[str, float] = field(default_factory=dict[str, float])
    """When each gang ends that runs."""

    def tell(self) -> list[Gang]:
        """Runs until nothing happens any more; says which gangs never started."""
        planner = Planner(self.cluster, SCORING, self.policy)
        lasts = {gang.name: runtime for _, runtime, gang in self.coming}
        for _ in range(MOST_CYCLES):
            now = min([*self.ends.values(), *(at for at, _, _ in self.coming)], default=None)
            if now is None:
                return list(self.known.values())
            self._end([name for name, end in self.ends.items() if end <= now])
            self.known.update((gang.name, gang) for at, _, gang in self.coming if at <= now)
            self.coming = [each for each in self.coming if each[0] > now]
            for placement in planner.decide(self._waiting(), now).placements:
                self.ends.setdefault(placement.gang.name, now + lasts[placement.gang.name])
            self.ends = {n: end for n, end in self.ends.items() if n in self.cluster.standing}
            check_counts(self.cluster.snapshot)
            check_queues(self.cluster)
        raise AssertionError(f"after {MOST_CYCLES} cycles gangs still start and end")

    def _waiting(self) -> list[Gang]:
        return waiting(self.known.values(), self.cluster)

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            pods = list(self.cluster.standing[name].pods)
            self.cluster.snapshot.release_all(pods)
            self.cluster.leave(name, pods)
            del self.known[name], self.ends[name]


def story(seed: int) -> Story:
    dice = Random(seed)
    fair = [QueueSpec(name, deserved={GPU: dice.choice((0, 2000, 4000))}) for name in "ab"]
    cluster = Cluster(forest_of(fair))
    put_nodes(dice, cluster, dice.randint(2, 5))
    coming: list[tuple[float, float, Gang]] = []
    for index in range(dice.randint(3, 8)):
        at, runtime = float(dice.randint(0, 100)), float(dice.randint(5, 60))
        gang = replace(
            _likely_to_fit(dice, cluster, f"gang{index}"),
            queue=dice.choice(QUEUES),
            priority=dice.choice((0, 0, 0, 1, 2)),
            created=at,
            duration=dice.choice((None, runtime, runtime / 2)),
        )
        coming.append((at, runtime, gang))
    evicts = dice.random() < 0.5
    return Story(cluster, coming, Policy(LEVELS, evicts=evicts, reserve_after=20.0))


def _likely_to_fit(dice: Random, cluster: Cluster, name: str) -> Gang:
    drawn = (gang_of(dice, name) for _ in range(8))
    fitting = (gang for gang in drawn if Exact(cluster.snapshot, gang).has_place())
    return next(fitting, None) or gang_of(dice, name)


def test_every_gang_that_fits_the_empty_cluster_starts() -> None:
    first, started = SEED * 1_000_000, 0
    for seed in range(first, first + STORIES):
        told = story(seed)
        gangs = [gang for _, _, gang in told.coming]
        left = told.tell()
        started += len(gangs) - len(left)
        assert not told.cluster.snapshot.bookings
        stuck = [gang.name for gang in left if Exact(told.cluster.snapshot, gang).has_place()]
        assert not stuck, f"story {seed}: {stuck} never started"
    assert started > 4 * STORIES
