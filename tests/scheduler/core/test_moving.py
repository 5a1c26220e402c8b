"""The one move that gains most."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kilonova.scheduler.core.demand import Ask, Demand
from kilonova.scheduler.core.fragments import Largest, Left, Worth
from kilonova.scheduler.core.moving import Move, Standing, best_move

GIB = 1 << 30
SMALL, LARGE = Ask(1000, GIB, 1, 300), Ask(1000, GIB, 1, 700)
ONE = Ask(1000, GIB, 1)
RARE = Demand.of({SMALL: 1, LARGE: 1, ONE: 998})
"""Almost everybody wants whole devices: holes stay holes."""
WORTH = Worth(RARE, Largest(64_000, 256 * GIB, 2))


def left(*devices: list[int]) -> Left:
    number = len(devices)
    cpu = np.full(number, 32_000, np.int64)
    return Left(cpu, np.full(number, 128 * GIB, np.int64), np.array(devices, np.int16))


def standing(ask: Ask, *places: tuple[int, int]) -> Standing:
    rows = np.array([row for row, _ in places], np.intp)
    return Standing(ask, rows, np.array([[device] for _, device in places], np.intp))


def everywhere(_: Ask) -> NDArray[np.bool_]:
    return np.array(True)


def test_a_lone_share_joins_the_one_that_it_makes_whole() -> None:
    state = left([700, 0], [0, 300])
    pods = [standing(SMALL, (0, 0)), standing(LARGE, (1, 1))]
    move = best_move(WORTH, state, pods, everywhere, 30)
    assert move is not None
    assert (move.ask, move.index, move.row, move.devices) == (SMALL, 0, 1, (1,))
    assert 800 < move.gain < 1000


def test_nothing_moves_where_all_is_well() -> None:
    state = left([0, 0], [1000, 1000])
    pods = [standing(SMALL, (0, 0)), standing(LARGE, (0, 0))]
    assert best_move(WORTH, state, pods, everywhere, 30) is None


def test_nothing_moves_to_where_it_may_not_stand() -> None:
    state = left([700, 0], [0, 300])

    def only_the_first(_: Ask) -> NDArray[np.bool_]:
        return np.array([True, False])

    assert best_move(WORTH, state, [standing(SMALL, (0, 0))], only_the_first, 30) is None


def test_nothing_moves_for_less_than_asked() -> None:
    state = left([700, 0], [0, 300])
    assert best_move(WORTH, state, [standing(SMALL, (0, 0))], everywhere, 2000) is None


@given(st.lists(st.sampled_from([0, 300, 700, 1000]), min_size=2, max_size=8), st.data())
def test_a_move_gains_what_it_says_and_takes_no_more_than_there_is(
    free: list[int], data: st.DataObject
) -> None:
    state = left(*([milli, 0] for milli in free))
    places = [
        (row, 0) for row, milli in enumerate(free) if milli <= 700 and data.draw(st.booleans())
    ]
    if not places:
        places = [(row, 1) for row in range(len(free))]
    found = best_move(WORTH, state, [standing(SMALL, *places)], everywhere, 1)
    if found is None:
        return
    after = _carried_out(state, places[found.index], found)
    assert (after.gpus >= 0).all()
    gain = float(WORTH.of(after).sum() - WORTH.of(state).sum())
    assert gain == pytest.approx(found.gain)


def _carried_out(state: Left, place: tuple[int, int], move: Move) -> Left:
    after = Left(state.cpu.copy(), state.memory.copy(), state.gpus.copy())
    for row, device, sign in ((*place, 1), (move.row, move.devices[0], -1)):
        after.cpu[row] += sign * move.ask.cpu
        after.memory[row] += sign * move.ask.memory
        after.gpus[row, device] += sign * move.ask.milli
    return after
