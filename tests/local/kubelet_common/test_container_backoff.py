"""Restart delays of containers that keep ending."""

import pytest

from kilonova.local.kubelet_common.container_backoff import ContainerBackoff, format_delay


def test_back_off_doubles_up_to_five_minutes_and_resets_after_ten() -> None:
    backoff = ContainerBackoff()
    now, waits = 1000.0, list[float]()
    for _ in range(8):
        waits.append(backoff.remaining(now, now))
        now += waits[-1]
        backoff.record_restart(now, now)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    later = now + 601
    assert backoff.remaining(later, later) == 0
    backoff.record_restart(later, later)
    assert backoff.delay == 10


@pytest.mark.parametrize(
    ("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (160, "2m40s")]
)
def test_delays_are_formatted_as_in_go(seconds: float, text: str) -> None:
    assert format_delay(seconds) == text
