"""Score plugins count; a broken or hanging one is skipped."""

import os
import threading
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from kilonova.scheduler.core.filters.feasibility import Scores
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.plugins import Scoring
from kilonova.scheduler.score_plugins import GROUP, GuardedScore, PluginTimeout, load_score_plugins
from tests.scheduler.core.support.clusters import node, shape, snapshot_of

ROWS = np.array([0, 1], np.intp)
MODULE = "tests.scheduler.test_score_plugins"


def last_first(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """Prefers the last node."""
    return rows.astype(np.float64)


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_entry_point_function_is_a_score_plugin() -> None:
    parts = load_score_plugins({"last": 30.0}, [point("last", f"{MODULE}:last_first")])
    assert [(part.name, part.weight) for part in parts] == [("last", 30.0)]
    snapshot = snapshot_of(node("a"), node("b"))
    assert Scoring(parts)(snapshot, shape(), ROWS).tolist() == [0.0, 1.0]


def test_broken_plugin_is_skipped() -> None:
    offered = [point("gone", "no.such.module:f"), point("text", f"{MODULE}:MODULE")]
    assert load_score_plugins({}, offered) == []


def test_plugin_of_a_package_installed_later_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    before = [part.name for part in load_score_plugins({})]
    info = tmp_path / "later-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nlater = {MODULE}:last_first\n")
    os.utime(tmp_path, ns=(0, time.time_ns() + 1_000_000_000))
    assert [part.name for part in load_score_plugins({})] == sorted([*before, "later"])


def test_hanging_plugin_times_out_once() -> None:
    free = threading.Event()

    def hang(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        free.wait()
        return np.zeros(len(rows))

    guarded = GuardedScore("slow", hang, seconds=0.05)
    snapshot = snapshot_of(node("a"), node("b"))
    try:
        with pytest.raises(PluginTimeout, match=r"more than 0\.05 s"):
            guarded(snapshot, shape(), ROWS)
        with pytest.raises(PluginTimeout, match="disabled"):
            guarded(snapshot, shape(), ROWS)
    finally:
        free.set()
