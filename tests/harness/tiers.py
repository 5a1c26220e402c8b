"""Test tiers: which tests `make test` runs, and in which order files are handed to the workers.

A test is marked here, from what it uses and from how long it took when it was last recorded:

- `real_parts`: one of its fixtures is a part that `make real-parts` gets (the control plane of
  Kubernetes, kubectl, Chromium, Go, and each that is named `…_part`), or it runs on the server
  named `kubernetes`;
- `long`: its recorded duration is above `LONG_SECONDS`;
- `campaign`: a property test, or a test below `tests/faults`; other campaigns are marked where they
  are written. See `tests/harness/campaigns.py`.

The quick tier (`make test`) leaves the first two out; `make test TIER=all` runs everything;
`make faults` runs the campaigns, at full length. Durations are in `tests/durations.json`, written
by `make durations`; a test that is not in it counts as short.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

QUICK = "quick"
ALL = "all"
FAULTS = "faults"
LONG_SECONDS = 0.6
"""Recorded seconds above which a test is not in the quick tier."""
RECORDED_SECONDS = 0.5
"""Shorter tests are not recorded."""
REAL_PART_FIXTURES = frozenset(
    {"control_plane_binaries", "kubectl_path", "chromium_command", "go_command"}
)
REAL_PART_SUFFIX = "_part"
"""Fixtures with this end of their name are folders of parts; see `tests/conftest.py`."""
REAL_SERVER = "kubernetes"
DURATIONS = Path(__file__).parents[1] / "durations.json"
FAULTS_FOLDER = Path(__file__).parents[1] / "faults"


def read_durations() -> dict[str, float]:
    """Seconds by test; empty where none are recorded."""
    return json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}


def mark_tiers(items: list[pytest.Item], durations: Mapping[str, float]) -> None:
    """Add the markers `real_parts`, `long` and `campaign`."""
    for item in items:
        if _is_property(item) or item.path.is_relative_to(FAULTS_FOLDER):
            item.add_marker(pytest.mark.campaign)
        if _uses_real_parts(item):
            item.add_marker(pytest.mark.real_parts)
        if durations.get(item.nodeid, 0.0) > LONG_SECONDS:
            item.add_marker(pytest.mark.long)


def is_in_tier(item: pytest.Item, tier: str) -> bool:
    """Whether a marked test is in a tier."""
    if tier == FAULTS:
        return item.get_closest_marker("campaign") is not None
    left_out = ("real_parts", "long") if tier == QUICK else ()
    return not any(item.get_closest_marker(name) for name in left_out)


def sort_by_duration(items: list[pytest.Item], durations: Mapping[str, float]) -> None:
    """Put the files that take longest first, so that no worker ends alone with one of them."""
    seconds: Counter[Path] = Counter()
    for item in items:
        seconds[item.path] += durations.get(item.nodeid, 0.0)  # pyright: ignore[reportArgumentType]  # a Counter of floats
    items.sort(key=lambda item: -seconds[item.path])


class DurationRecorder:
    """Collects how long the tests of a run took, and writes the long ones to `durations.json`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._seconds[report.nodeid] = report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace what is recorded of the tests that ran; the rest stays."""
        recorded = {
            name: seconds for name, seconds in read_durations().items() if name not in self._seconds
        }
        recorded |= {
            name: round(seconds, 1)
            for name, seconds in self._seconds.items()
            if seconds >= RECORDED_SECONDS
        }
        text = json.dumps(dict(sorted(recorded.items())), indent=0)
        DURATIONS.write_text(text + "\n")


def _is_property(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _uses_real_parts(item: pytest.Item) -> bool:
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if any(name in REAL_PART_FIXTURES or name.endswith(REAL_PART_SUFFIX) for name in fixtures):
        return True
    callspec: Any = getattr(item, "callspec", None)
    return callspec is not None and REAL_SERVER in callspec.params.values()
