"""The product benchmark runs, with tiny inputs."""

import math
from itertools import pairwise
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench.__main__ import app
from bench.product.change_times import ChangeScanner, ChangeTimes

TINY = {"helps": 1, "starts": 1}


def test_command_and_small_cluster_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    inputs = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    families = ["--only", "help", "--only", "start", "--no-large", "--no-peer"]
    words = ["product", *inputs, *families, "--data", str(tmp_path), "--json", str(file)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = {row["title"]: row["ours"] for row in msgspec.json.decode(file.read_bytes())["rows"]}
    assert rows["kilonova --help (kubectl --help)"] > rows["python -c pass (lower bound)"]
    assert rows["up, 34 nodes: ready, cold start"] > 0
    assert rows["up, 34 nodes: ready, restart on its data"] > 0


def test_a_change_is_seen_with_a_later_one_of_its_object() -> None:
    arrivals = ChangeTimes(2, {10: 0.0, 11: 1.0, 12: 2.0})
    arrivals.record_arrival(12, 5.0)
    assert arrivals.seen == {12: 5.0, 10: 5.0}
    assert not arrivals.is_complete
    assert arrivals.get_latency(0.5) == 5_000
    assert arrivals.get_latency(1) == math.inf


def test_changes_of_another_run_are_not_counted() -> None:
    arrivals = ChangeTimes(2, {10: 0.0})
    arrivals.record_arrival(3, 5.0)
    assert arrivals.seen == {}


@given(st.lists(st.integers(0, 10_000), max_size=8), st.data())
def test_every_change_is_found_once_however_the_stream_is_split(
    numbers: list[int], data: st.DataObject
) -> None:
    text = b"".join(b'{"message":"bench-%d","x":1}\n' % number for number in numbers)
    borders = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    scanner = ChangeScanner()
    edges = [0, *borders, len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert [number for piece in pieces for number in scanner.scan(piece)] == numbers
