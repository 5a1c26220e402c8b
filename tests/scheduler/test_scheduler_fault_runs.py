"""Random faults at every write, random events: nothing is given twice, nobody is forgotten.

`KILONOVA_FAULT_RUNS` is how many runs (`make faults`: 300), `KILONOVA_SEED` where they begin.
"""

import os

import pytest

from kilonova.local import virtual
from tests.scheduler import chaos

RUNS = int(os.environ.get("KILONOVA_FAULT_RUNS", "5"))
SEED = int(os.environ.get("KILONOVA_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_whatever_goes_wrong_all_is_well_in_the_end(seed: int) -> None:
    """The seed also chooses the order of tasks that could go in any."""
    virtual.run(lambda: chaos.run(seed), seed=seed)
