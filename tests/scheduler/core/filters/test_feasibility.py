"""Results cached by row state equal recomputed ones."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, Scores
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.model.taints import Taint
from kilonova.scheduler.core.scoring.plugins import ScorePlugin, Scoring, default_scoring
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support.clusters import node, shape, snapshot_of

SHAPES = (shape(1), shape(2, 3000), shape(1, milli=250), shape(0, 500), shape(0, 64_000))
SOFT = Taint("dedicated", "PreferNoSchedule", "others")


def nodes() -> Snapshot:
    alike = [node(f"n{number}") for number in range(4)]
    others = [node("cpu", 0), node("small", 2, 8000), replace(node("soft"), taints=(SOFT,))]
    return snapshot_of(*alike, *others)


@settings(max_examples=limit_examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), max_size=40))
def test_cached_ranks_match_recomputation(
    steps: list[tuple[Shape, bool]],
) -> None:
    snapshot, scoring = nodes(), default_scoring()
    feasibility = FeasibilityCache(snapshot, scoring)
    for number, (wanted, leaves) in enumerate(steps):
        row = feasibility.best_row(wanted)
        if row >= 0:
            member = Member(f"ns/p{number}", wanted)
            snapshot.add_pods(make_placements(snapshot, row, [member], "g"))
        if leaves and snapshot.placements:
            snapshot.remove_pod(sorted(snapshot.placements)[number % len(snapshot.placements)])
        for each in SHAPES:
            assert np.array_equal(
                feasibility.ranking_keys(each),
                FeasibilityCache(snapshot, scoring).ranking_keys(each),
            )


def test_rows_ranked_by_state_match_individual_ranking() -> None:
    def each(snapshot: Snapshot, wanted: Shape, rows: Rows) -> Scores:
        return default_scoring()(
            snapshot, wanted, rows
        )  # hides that scores depend on the state only

    dice = Random(7)
    sizes = [(f"n{number:03}", dice.choice((8, 8, 8, 4, 0))) for number in range(200)]
    snapshot = snapshot_of(*(node(name, gpus) for name, gpus in sizes))
    feasibility = FeasibilityCache(snapshot, default_scoring())
    for number in range(60):
        wanted = dice.choice(SHAPES[:4])
        rows = np.flatnonzero(feasibility.free_capacity(wanted) > 0)
        member = Member(f"ns/p{number}", wanted)
        snapshot.add_pods(make_placements(snapshot, int(dice.choice(rows)), [member], "g"))
        if number % 20 == 19:
            snapshot.put_node(node(f"new-{number}", 8))
            asked = shape(1, 100 + number)
            assert np.array_equal(
                feasibility.ranking_keys(asked),
                FeasibilityCache(snapshot, each).ranking_keys(asked),
            )


def test_rows_in_same_state_are_scored_once() -> None:
    asked: list[int] = []

    class Counting(Scoring):
        def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
            asked.append(len(rows))
            return super().__call__(snapshot, shape, rows)

    snapshot = snapshot_of(*(node(f"n{number}") for number in range(500)))
    feasibility = FeasibilityCache(snapshot, Counting(default_scoring().plugins))
    for number in range(20):
        row = feasibility.best_row(shape(1, 1000 + number))
        member = Member(f"ns/p{number}", shape(1))
        snapshot.add_pods(make_placements(snapshot, row, [member], "g"))
    assert max(asked) <= 21


def test_many_alternating_shapes_stay_cached() -> None:
    asked: list[Shape] = []

    class Counting(Scoring):
        def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
            asked.append(shape)
            return super().__call__(snapshot, shape, rows)

    feasibility = FeasibilityCache(nodes(), Counting(default_scoring().plugins))
    shapes = [shape(1, 1000 + number) for number in range(1000)]
    for _ in range(3):
        for each in shapes:
            feasibility.best_row(each)
    assert len(asked) == len(set(asked))


def test_plugin_may_score_by_node_name() -> None:
    def by_name(snapshot: Snapshot, _: Shape, rows: Rows) -> Scores:
        return np.array([100.0 if snapshot.names[row] == "n2" else 0.0 for row in rows.tolist()])

    snapshot = nodes()
    feasibility = FeasibilityCache(snapshot, Scoring([ScorePlugin("name", 1, by_name)]))
    for number in range(8):
        row = feasibility.best_row(shape(1))
        assert snapshot.names[row] == "n2"
        member = Member(f"ns/p{number}", shape(1))
        snapshot.add_pods(make_placements(snapshot, row, [member], "g"))
