"""Preemption and reclaim compared with an exact search of small clusters.

Every victim is permitted, judged by the final state; none is evicted unnecessarily; and a gang is
placed whenever some set of victims is permitted and sufficient.

`KILONOVA_WORLDS` is the number of random clusters (`make faults`: 10,000), `KILONOVA_SEED` changes
the seed.
"""

import os
from random import Random

import pytest

from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from tests.scheduler.core.support.preemption_cases import (
    NOW,
    ZONE,
    PreemptionOracle,
    Victim,
    random_case,
)

CASE_COUNT = int(os.environ.get("KILONOVA_WORLDS", "500"))
SEED = int(os.environ.get("KILONOVA_SEED", "14"))


@pytest.mark.campaign
def test_selected_victims_are_entitled_needed_and_found_if_any_exist() -> None:
    evicting = unschedulable = 0
    for number in range(CASE_COUNT):
        cluster, gang = random_case(Random(SEED * 1_000_003 + number))
        judge = PreemptionOracle(cluster, gang)
        plan = Planner(cluster, default_scoring(), PlannerPolicy((ZONE,))).plan([gang], NOW)
        reported = f"case {number} of seed {SEED}"
        if not plan.placements:
            unschedulable += 1
            found = next(judge.choices(), None)
            assert found is None, (reported, found)
            continue
        victims = victims_of(plan.placements[0])
        evicting += bool(victims)
        assert judge.is_choice(victims), (reported, victims)
        for spared in victims:
            others = [each for each in victims if each != spared]
            assert not judge.is_choice(others), (reported, victims, spared)
    assert evicting > CASE_COUNT / 20
    assert unschedulable > CASE_COUNT / 20


def victims_of(placement: GangPlacement) -> list[Victim]:
    return [(unit.gang, frozenset(unit.pods)) for unit in placement.victims]
