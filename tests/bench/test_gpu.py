"""The GPU benchmark, with quick inputs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bench.gpu.optimum import count_most_served
from bench.gpu.streams import InstanceRequest, generate_stream, h100


def test_decisions_plans_and_streams_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "gpu", "--quick", "--json", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    rows = json.loads(out.read_text())["rows"]
    assert [row["unit"] for row in rows[:15]] == ["µs", "µs", "ms", "ms", *([""] * 11)]
    assert all(row["ours"] > 0 for row in rows)
    optimum = [row for row in rows if "optimum" in row["title"]]
    assert len(optimum) == 3
    assert all(row["ours"] <= row["peer"] for row in optimum)


def test_optimum_is_that_of_all_choices() -> None:
    """Compared with trying every start, and none, for each request."""
    for seed in range(8):
        stream = generate_stream(seed, {"1g.20gb": 1, "2g.20gb": 1, "3g.40gb": 2}, 1, 1.5, 6)
        options = [(None, *starts_of(each.profile)) for each in stream]
        best = max(
            sum(start is not None for start in choice)
            for choice in product(*options)
            if is_possible(stream, choice)
        )
        assert count_most_served(stream) == best


def starts_of(name: str) -> tuple[int, ...]:
    profile = h100().profile(name)
    assert profile is not None
    return profile.starts


def is_possible(stream: Sequence[InstanceRequest], starts: tuple[int | None, ...]) -> bool:
    placed = [
        (each, profile.mask_at(start))
        for each, start in zip(stream, starts, strict=True)
        if start is not None and (profile := h100().profile(each.profile)) is not None
    ]
    return all(
        not (mask & other and first.arrival < second.departure and second.arrival < first.departure)
        for number, (first, mask) in enumerate(placed)
        for second, other in placed[:number]
    )
