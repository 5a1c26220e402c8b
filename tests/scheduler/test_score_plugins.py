"""What is plugged in counts; what is broken or hangs is left out, and placement goes on."""

import threading
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Scores
from kilonova.scheduler.core.scores import Scoring
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.plugins import GROUP, Guarded, TookTooLong, plugged_in
from tests.scheduler.core.clusters import node, shape, snapshot_of

ROWS = np.array([0, 1], np.intp)
MODULE = "tests.scheduler.test_score_plugins"


def last_first(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Prefers the last node."""
    return rows.astype(np.float64)


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_a_function_that_a_package_offers_is_part_of_the_score() -> None:
    parts = plugged_in({"last": 30.0}, [point("last", f"{MODULE}:last_first")])
    assert [(part.name, part.weight) for part in parts] == [("last", 30.0)]
    snapshot = snapshot_of(node("a"), node("b"))
    assert Scoring(parts)(snapshot, shape(), ROWS).tolist() == [0.0, 1.0]


def test_what_cannot_be_loaded_is_left_out() -> None:
    offered = [point("gone", "no.such.module:f"), point("text", f"{MODULE}:MODULE")]
    assert plugged_in({}, offered) == []


def test_one_that_hangs_is_waited_for_once() -> None:
    free = threading.Event()

    def hang(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        free.wait()
        return np.zeros(len(rows))

    guarded = Guarded("slow", hang, seconds=0.05)
    snapshot = snapshot_of(node("a"), node("b"))
    try:
        with pytest.raises(TookTooLong, match=r"more than 0\.05 s"):
            guarded(snapshot, shape(), ROWS)
        with pytest.raises(TookTooLong, match="not asked any more"):
            guarded(snapshot, shape(), ROWS)
    finally:
        free.set()
