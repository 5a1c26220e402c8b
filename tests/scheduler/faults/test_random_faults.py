"""Random faults at every write and random events: no capacity is allocated twice, no pod is
forgotten.

`KILONOVA_FAULT_RUNS` is the number of runs (`make faults`: 300), `KILONOVA_SEED` the first seed.
"""

import os

import pytest

from kilonova.local import virtual_time
from tests.scheduler.harness import chaos

RUNS = int(os.environ.get("KILONOVA_FAULT_RUNS", "3"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_cluster_converges_after_random_faults(seed: int) -> None:
    """The seed also determines the order of concurrent tasks."""
    virtual_time.run(lambda: chaos.run(seed), seed=seed)
