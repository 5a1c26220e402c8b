"""The benchmark of what users wait for runs, on inputs so small that nothing is worth timing."""

import math
from itertools import pairwise
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench.__main__ import app
from bench.product.arrivals import Arrivals, Marks

TINY = {"helps": 1, "starts": 1}


def test_it_measures_the_command_and_a_small_cluster(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    families = ["--only", "help", "--only", "start", "--no-large", "--no-peer"]
    words = ["product", *inputs, *families, "--data", str(tmp_path), "--json", str(file)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = {row["title"]: row["ours"] for row in msgspec.json.decode(file.read_bytes())["rows"]}
    assert rows["kilonova --help (kubectl --help)"] > rows["python -c pass, of which that is made"]
    assert rows["up, 34 nodes: ready, from nothing"] > 0
    assert rows["up, 34 nodes: ready again, on its data"] > 0


def test_a_change_is_seen_with_a_later_one_of_its_object() -> None:
    arrivals = Arrivals(2, {10: 0.0, 11: 1.0, 12: 2.0})
    arrivals.note(12, 5.0)
    assert arrivals.seen == {12: 5.0, 10: 5.0}
    assert not arrivals.is_complete
    assert arrivals.milliseconds(0.5) == 5_000
    assert arrivals.milliseconds(1) == math.inf


def test_what_was_sent_in_another_round_is_not_counted() -> None:
    arrivals = Arrivals(2, {10: 0.0})
    arrivals.note(3, 5.0)
    assert arrivals.seen == {}


@given(st.lists(st.integers(0, 10_000), max_size=8), st.data())
def test_every_mark_is_found_once_however_the_stream_is_cut(
    numbers: list[int], data: st.DataObject
) -> None:
    text = b"".join(b'{"message":"bench-%d","x":1}\n' % number for number in numbers)
    borders = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    marks = Marks()
    edges = [0, *borders, len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert [number for piece in pieces for number in marks.found(piece)] == numbers
