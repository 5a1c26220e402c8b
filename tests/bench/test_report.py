"""Tables and JSON files of benchmarks."""

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench.report import Quantity, Report, Row, format_value


@pytest.mark.parametrize(
    ("quantity", "ours", "peer", "reached"),
    [
        (Quantity("ready", "s", target=1), 0.9, None, True),
        (Quantity("ready", "s", target=1), 1.1, None, False),
        (Quantity("rate", "/s", "more", target=3000), 3000, 800, True),
        (Quantity("rate", "/s", "more", target=3000), 2999, 800, False),
        (Quantity("rate", "/s", "more", beats_peer=True), 700, 800, False),
        (Quantity("list", "s", beats_peer=True), 1, 2, True),
        (Quantity("list", "s", target=5, beats_peer=True), 3, 2, False),
        (Quantity("list", "s", beats_peer=True), 1, None, None),
        (Quantity("cost", "µs"), 1, 2, None),
    ],
)
def test_target_is_reached_or_missed(
    quantity: Quantity, ours: float, peer: float | None, reached: bool | None
) -> None:
    assert Row(quantity, ours, peer).is_target_met is reached


def test_times_better_is_the_same_for_less_and_more() -> None:
    assert Row(Quantity("time", "s"), 2, 6).ratio == 3
    assert Row(Quantity("rate", "/s", "more"), 6, 2).ratio == 3
    assert Row(Quantity("time", "s"), 2).ratio is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.487, "0.49 s"), (12.34, "12.3 s"), (1234.5, "1,234 s"), (float("inf"), "never")],
)
def test_figures_have_significant_digits_only(value: float, text: str) -> None:
    assert format_value(value, "s") == text


def test_table_and_file_contain_every_row(tmp_path: Path) -> None:
    rows = [
        Row(Quantity("ready", "s", target=1, beats_peer=True), 0.5, 3.0),
        Row(Quantity("lost", "ms", target=100), float("inf"), None),
    ]
    report = Report("home", "peer", {"pods": 7}, rows, ["a note"])
    out = StringIO()
    report.print(Console(file=out, width=120))
    assert [
        word
        for word in ("ready", "6.00", "≤ peer, ≤ 1 s ✓", "missed", "a note")
        if word not in out.getvalue()
    ] == []
    report.write(tmp_path / "figures.json")
    document = msgspec.json.decode((tmp_path / "figures.json").read_bytes())
    assert document["inputs"] == {"pods": 7}
    assert [
        (row["title"], row["ours"], row["peer"], row["reached"]) for row in document["rows"]
    ] == [
        ("ready", 0.5, 3.0, True),
        ("lost", None, None, False),
    ]
