"""The single migration with the largest gain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kilonova.scheduler.core.consolidation.pod_migration import (
    EquivalentPods,
    PodMigration,
    find_best_migration,
)
from kilonova.scheduler.core.scoring.demand import Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    FragmentationModel,
    FreeResources,
    LargestNode,
)

GIB = 1 << 30
SMALL, LARGE = PackingRequest(1000, GIB, 1, 300), PackingRequest(1000, GIB, 1, 700)
ONE = PackingRequest(1000, GIB, 1)
RARE = Demand.from_counts({SMALL: 1, LARGE: 1, ONE: 998})
"""Almost all requests are for whole devices: free fractions are wasted."""
MODEL = FragmentationModel(RARE, LargestNode(64_000, 256 * GIB, 2))


def free_resources(*devices: list[int]) -> FreeResources:
    number = len(devices)
    cpu = np.full(number, 32_000, np.int64)
    return FreeResources(cpu, np.full(number, 128 * GIB, np.int64), np.array(devices, np.int16))


def equivalent_pods(packing_request: PackingRequest, *places: tuple[int, int]) -> EquivalentPods:
    rows = np.array([row for row, _ in places], np.intp)
    return EquivalentPods(
        packing_request, rows, np.array([[device] for _, device in places], np.intp)
    )


def all_rows(_: PackingRequest) -> NDArray[np.bool_]:
    return np.array(True)


def test_single_share_joins_complementary_share() -> None:
    state = free_resources([700, 0], [0, 300])
    pods = [equivalent_pods(SMALL, (0, 0)), equivalent_pods(LARGE, (1, 1))]
    migration = find_best_migration(MODEL, state, pods, all_rows, 30)
    assert migration is not None
    assert (migration.request, migration.index, migration.row, migration.devices) == (
        SMALL,
        0,
        1,
        (1,),
    )
    assert 800 < migration.gain < 1000


def test_no_migration_without_gain() -> None:
    state = free_resources([0, 0], [1000, 1000])
    pods = [equivalent_pods(SMALL, (0, 0)), equivalent_pods(LARGE, (0, 0))]
    assert find_best_migration(MODEL, state, pods, all_rows, 30) is None


def test_no_migration_to_inadmissible_row() -> None:
    state = free_resources([700, 0], [0, 300])

    def only_the_first(_: PackingRequest) -> NDArray[np.bool_]:
        return np.array([True, False])

    assert (
        find_best_migration(MODEL, state, [equivalent_pods(SMALL, (0, 0))], only_the_first, 30)
        is None
    )


def test_no_migration_below_min_gain() -> None:
    state = free_resources([700, 0], [0, 300])
    assert (
        find_best_migration(MODEL, state, [equivalent_pods(SMALL, (0, 0))], all_rows, 2000) is None
    )


@given(st.lists(st.sampled_from([0, 300, 700, 1000]), min_size=2, max_size=8), st.data())
def test_migration_gains_what_it_reports_within_free_resources(
    free: list[int], data: st.DataObject
) -> None:
    state = free_resources(*([milli, 0] for milli in free))
    places = [
        (row, 0) for row, milli in enumerate(free) if milli <= 700 and data.draw(st.booleans())
    ]
    if not places:
        places = [(row, 1) for row in range(len(free))]
    found = find_best_migration(MODEL, state, [equivalent_pods(SMALL, *places)], all_rows, 1)
    if found is None:
        return
    after = _apply_migration(state, places[found.index], found)
    assert (after.gpus >= 0).all()
    gain = float(MODEL.usable_milli(after).sum() - MODEL.usable_milli(state).sum())
    assert gain == pytest.approx(found.gain)


def _apply_migration(
    state: FreeResources, place: tuple[int, int], migration: PodMigration
) -> FreeResources:
    after = FreeResources(state.cpu.copy(), state.memory.copy(), state.gpus.copy())
    for row, device, sign in ((*place, 1), (migration.row, migration.devices[0], -1)):
        after.cpu[row] += sign * migration.request.cpu
        after.memory[row] += sign * migration.request.memory
        after.gpus[row, device] += sign * migration.request.milli
    return after
