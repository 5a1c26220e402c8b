"""Gangs arrive, run and end: none that fits the empty cluster is pending for ever.

`KILONOVA_WORLDS` is the number of random scenarios (`make faults`: more of them), `KILONOVA_SEED`
changes the seed.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.exhaustive_placement import ExhaustiveSearch
from tests.scheduler.core.support.pending_gangs import list_pending
from tests.scheduler.core.support.placement_cases import LEVELS, put_nodes, random_gang
from tests.scheduler.core.support.random_clusters import SCORING
from tests.scheduler.core.support.reference_model import check_counts, check_queues

SCENARIO_COUNT = int(os.environ.get("KILONOVA_WORLDS", "40"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))
QUEUES = ("default", "a", "b")
MAX_CYCLES = 200


@dataclass
class Scenario:
    """A cluster, and gangs by arrival time, each with its run time."""

    cluster: Cluster
    coming: list[tuple[float, float, Gang]]
    policy: PlannerPolicy
    known: dict[str, Gang] = field(default_factory=dict[str, Gang])
    ends: dict[str, float] = field(default_factory=dict[str, float])
    """End time of each running gang."""

    def run(self) -> list[Gang]:
        """Runs until nothing happens any more; returns the gangs that never started."""
        planner = Planner(self.cluster, SCORING, self.policy)
        lasts = {gang.name: runtime for _, runtime, gang in self.coming}
        for _ in range(MAX_CYCLES):
            now = min([*self.ends.values(), *(at for at, _, _ in self.coming)], default=None)
            if now is None:
                return list(self.known.values())
            self._remove_gangs([name for name, end in self.ends.items() if end <= now])
            self.known.update((gang.name, gang) for at, _, gang in self.coming if at <= now)
            self.coming = [each for each in self.coming if each[0] > now]
            for placement in planner.schedule(self._list_pending(), now).placements:
                self.ends.setdefault(placement.gang.name, now + lasts[placement.gang.name])
            self.ends = {n: end for n, end in self.ends.items() if n in self.cluster.running_gangs}
            check_counts(self.cluster.snapshot)
            check_queues(self.cluster)
        raise AssertionError(f"after {MAX_CYCLES} cycles gangs still start and end")

    def _list_pending(self) -> list[Gang]:
        return list_pending(self.known.values(), self.cluster)

    def _remove_gangs(self, names: Iterable[str]) -> None:
        for name in names:
            pods = list(self.cluster.running_gangs[name].pods)
            self.cluster.snapshot.remove_pods(pods)
            self.cluster.record_removed(name, pods)
            del self.known[name], self.ends[name]


def build_scenario(seed: int) -> Scenario:
    dice = Random(seed)
    fair = [QueueSpec(name, deserved={GPU: dice.choice((0, 2000, 4000))}) for name in "ab"]
    cluster = Cluster(build_queue_forest(fair))
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
    return Scenario(
        cluster, coming, PlannerPolicy(LEVELS, preemption_enabled=evicts, reserve_after=20.0)
    )


def _likely_to_fit(dice: Random, cluster: Cluster, name: str) -> Gang:
    drawn = (random_gang(dice, name) for _ in range(8))
    fitting = (gang for gang in drawn if ExhaustiveSearch(cluster.snapshot, gang).can_place())
    return next(fitting, None) or random_gang(dice, name)


@pytest.mark.campaign
def test_every_gang_that_fits_the_empty_cluster_starts() -> None:
    first, started = SEED * 1_000_000, 0
    for seed in range(first, first + SCENARIO_COUNT):
        reported = build_scenario(seed)
        gangs = [gang for _, _, gang in reported.coming]
        left = reported.run()
        started += len(gangs) - len(left)
        assert not reported.cluster.snapshot.placements
        stuck = [
            gang.name
            for gang in left
            if ExhaustiveSearch(reported.cluster.snapshot, gang).can_place()
        ]
        assert not stuck, f"story {seed}: {stuck} never started"
    assert started > 4 * SCENARIO_COUNT
