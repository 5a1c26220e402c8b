"""Preemption and reclaim beside an exact search of small worlds.

Whoever is pushed out is so by right, judged by what is left in the end; nobody is who could have
stayed; and a gang gets its place whenever some set of victims is right and enough.

`KILONOVA_WORLDS` is how many worlds are looked at (`make faults`: 10,000), `KILONOVA_SEED` makes
others of them.
"""

import os
from random import Random

from kilonova.scheduler.core.plan import Placement, Planner, Policy
from kilonova.scheduler.core.scores import default_scoring
from tests.scheduler.core.small_worlds import NOW, ZONE, Judge, Victim, world

WORLDS = int(os.environ.get("KILONOVA_WORLDS", "1500"))
SEED = int(os.environ.get("KILONOVA_SEED", "14"))


def test_victims_are_right_needed_and_found_whenever_there_are_some() -> None:
    evicting = refused = 0
    for number in range(WORLDS):
        cluster, gang = world(Random(SEED * 1_000_003 + number))
        judge = Judge(cluster, gang)
        plan = Planner(cluster, default_scoring(), Policy((ZONE,))).plan([gang], NOW)
        told = f"world {number} of seed {SEED}"
        if not plan.placements:
            refused += 1
            found = next(judge.choices(), None)
            assert found is None, (told, found)
            continue
        victims = victims_of(plan.placements[0])
        evicting += bool(victims)
        assert judge.is_choice(victims), (told, victims)
        for spared in victims:
            others = [each for each in victims if each != spared]
            assert not judge.is_choice(others), (told, victims, spared)
    assert evicting > WORLDS / 20
    assert refused > WORLDS / 20


def victims_of(placement: Placement) -> list[Victim]:
    return [(unit.gang, frozenset(unit.pods)) for unit in placement.evicted]
