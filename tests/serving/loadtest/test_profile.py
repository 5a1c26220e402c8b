"""Profiles and arrivals of load."""

import random
from itertools import pairwise

import pytest

from kilonova.serving.loadtest.arrivals import iterate_arrivals
from kilonova.serving.loadtest.profile import LoadProfile, Phase, parse_profile


def test_steps_and_ramps_are_read() -> None:
    profile = parse_profile("10s:5, 20s:30, 1m:5-50")
    assert profile == LoadProfile((Phase(10, 5, 5), Phase(20, 30, 30), Phase(60, 5, 50)))
    assert (profile.seconds, profile.peak) == (90, 50)
    levels = [profile.level_at(time) for time in (0, 9.9, 10, 29, 30, 60, 90, 1000)]
    assert levels == [5, 5, 30, 30, 5, 27.5, 50, 50]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' has no level"),
        ("10s", "'10s' has no level"),
        ("10:5", "'10:5' is no phase"),
        ("10s:many", "'10s:many' is no phase"),
        ("0s:5", "a phase of 0 s"),
        ("10s:-5", "'10s:-5' is no phase"),
        ("10s:5--6", "the level 5--6"),
        ("10s:1e9", "the level 1e\\+09"),
        ("25h:1", "a phase of 90000 s"),
        ("10s:0,5s:0-0", "all levels are 0"),
    ],
)
def test_invalid_profile_is_explained(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_profile(text)


def test_constant_arrivals_are_evenly_distributed() -> None:
    profile = parse_profile("1s:4,1s:0,1s:2")
    times = list(iterate_arrivals(profile, "constant", random.Random(0)))
    assert times == [0, 0.25, 0.5, 0.75, 2.0, 2.5]


def test_arrivals_of_a_ramp_come_at_the_integral_of_the_rate() -> None:
    times = list(iterate_arrivals(parse_profile("10s:0-20"), "constant", random.Random(0)))
    assert len(times) == 100
    for number, time in enumerate(times):
        assert time**2 == pytest.approx(number)  # the rate is 2t, and so t² requests arrive by t


def test_poisson_arrivals_have_the_rate_and_are_repeatable() -> None:
    profile = parse_profile("100s:50")
    first, again, other = (
        list(iterate_arrivals(profile, "poisson", random.Random(seed))) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == pytest.approx(5000, rel=0.05)
    gaps = [later - earlier for earlier, later in pairwise(first)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance == pytest.approx(mean**2, rel=0.1)  # as of an exponential distribution
    assert all(0 <= time < 100 for time in first)
