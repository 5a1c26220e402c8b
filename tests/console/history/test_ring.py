"""The ring of one series: fixed resolutions, means, gaps, bounded size."""

import math

from hypothesis import given
from hypothesis import strategies as st

from kilonova.console.history.ring import RESOLUTIONS, SeriesRing

HOUR, DAY = RESOLUTIONS
START = 1_800_000_000


def values(ring: SeriesRing, step: int, first: float, last: float) -> list[float | None]:
    return list(ring.values(step, int(first // step), int(last // step)))


def test_bucket_has_the_mean_of_its_samples() -> None:
    ring = SeriesRing()
    for second, value in ((0, 2), (5, 4), (10, 7), (59, 11)):
        ring.add(START + second, value)
    assert values(ring, 10, START, START + 19) == [3, 7]
    assert values(ring, 60, START, START) == [6]


def test_late_sample_fills_the_gap_and_a_later_one_does_not() -> None:
    ring = SeriesRing()
    for second, value in ((0, 3), (40, 5), (120, 7)):
        ring.add(START + second, value)
    assert values(ring, 10, START, START + 49) == [3, 3, 3, 3, 5]
    assert values(ring, 10, START + 50, START + 129) == [None] * 7 + [7]


def test_unknown_value_is_a_gap_and_does_not_count() -> None:
    ring = SeriesRing()
    for second, value in ((0, 3), (10, math.nan), (20, 5)):
        ring.add(START + second, value)
    assert values(ring, 10, START, START + 29) == [3, None, 5]
    assert values(ring, 60, START, START) == [4]


def test_buckets_before_and_after_the_samples_are_unknown() -> None:
    ring = SeriesRing()
    ring.add(START, 1)
    assert values(ring, 10, START - 10, START + 10) == [None, 1, None]


def test_old_buckets_are_overwritten_in_each_resolution() -> None:
    ring = SeriesRing()
    end = START + 2 * DAY.step * DAY.length
    for at in range(START, end, 10):
        ring.add(at, 1)
    for resolution in RESOLUTIONS:
        known = values(ring, resolution.step, START, end)
        assert sum(value is not None for value in known) == resolution.length


def test_long_gap_leaves_no_old_values() -> None:
    ring = SeriesRing()
    ring.add(START, 1)
    later = START + 7 * 86_400
    ring.add(later, 2)
    for step, length in RESOLUTIONS:
        found = values(ring, step, later - step * (length - 1), later)
        assert found == [None] * (length - 1) + [2]


def test_sample_of_the_past_is_ignored() -> None:
    ring = SeriesRing()
    ring.add(START, 1)
    ring.add(START - 100, 5)
    assert values(ring, 10, START - 100, START) == [None] * 10 + [1]


def test_clock_that_was_set_back_by_days_restarts_the_ring() -> None:
    ring = SeriesRing()
    ring.add(START, 1)
    ring.add(START - 7 * 86_400, 5)
    assert values(ring, 10, START - 7 * 86_400, START - 7 * 86_400) == [5]
    assert values(ring, 10, START, START) == [None]


def expected_bucket(samples: list[tuple[int, int]], step: int, bucket: int) -> list[int]:
    """The samples whose mean a bucket has: those inside, or those before a late one."""
    buckets: dict[int, list[int]] = {}
    for second, value in samples:
        buckets.setdefault((START + second) // step, []).append(value)
    before = max((each for each in buckets if each <= bucket), default=None)
    after = min((each for each in buckets if each >= bucket), default=None)
    if before is None or after is None or (after - before - 1) * step > 60:
        return buckets.get(bucket, [])
    return buckets[before]


@given(
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(-1000, 1000)), min_size=1, max_size=60)
)
def test_ring_agrees_with_all_samples(samples: list[tuple[int, int]]) -> None:
    ring = SeriesRing()
    ordered = sorted(samples)
    for second, value in ordered:
        ring.add(START + second, value)
    for step, length in RESOLUTIONS:
        last = (START + ordered[-1][0]) // step
        for bucket in range(START // step, last + 1):
            (found,) = ring.values(step, bucket, bucket)
            inside = expected_bucket(ordered, step, bucket)
            if not inside or bucket <= last - length:
                assert found is None
            else:
                assert found is not None
                assert math.isclose(found, sum(inside) / len(inside), rel_tol=1e-5, abs_tol=1e-3)
