"""How long containers that keep ending wait."""

import pytest

from kilonova.local.nodes.backoff import Backoff, spoken_delay


def test_back_off_doubles_up_to_five_minutes_and_begins_anew_after_ten() -> None:
    backoff = Backoff()
    now, waits = 1000.0, list[float]()
    for _ in range(8):
        waits.append(backoff.remaining(now, now))
        now += waits[-1]
        backoff.count(now, now)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    later = now + 601
    assert backoff.remaining(later, later) == 0
    backoff.count(later, later)
    assert backoff.delay == 10


@pytest.mark.parametrize(
    ("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (160, "2m40s")]
)
def test_delays_are_spoken_as_in_go(seconds: float, text: str) -> None:
    assert spoken_delay(seconds) == text
