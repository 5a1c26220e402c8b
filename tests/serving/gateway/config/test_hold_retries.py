"""How long a held request outlives a control plane that is away."""

from fractions import Fraction
from itertools import combinations
from math import factorial, prod

from kilonova.serving.gateway.config import render_gateway
from tests.serving.gateway.support.services import build_spec, build_state

KEY = ("default", "web")


def list_longest_pauses() -> list[Fraction]:
    """The longest pause before each retry. Envoy doubles it each time, up to `max_interval`, and
    pauses for a random part of it."""
    state = build_state(starting=frozenset({"main"}))
    [host] = render_gateway(KEY, build_spec(), state).routes["gateway"]["virtual_hosts"]
    [policy] = {
        str(settings["grpc_service"]["retry_policy"]): settings["grpc_service"]["retry_policy"]
        for route in host["routes"]
        if "hold" in route.get("typed_per_filter_config", {})
        for settings in [route["typed_per_filter_config"]["hold"]["config"]["check_settings"]]
    }.values()
    base, longest = (
        Fraction(policy["retry_back_off"][name].removesuffix("s"))
        for name in ("base_interval", "max_interval")
    )
    return [min(base * 2**retry, longest) for retry in range(policy["num_retries"])]


def compute_probability(limits: list[Fraction], total: Fraction) -> Fraction:
    """How probably numbers that are uniform between 0 and these limits add up to less."""
    terms = (
        (-1) ** count * max(total - sum(chosen), Fraction(0)) ** len(limits)
        for count in range(len(limits) + 1)
        for chosen in combinations(limits, count)
    )
    return sum(terms, Fraction(0)) / (factorial(len(limits)) * prod(limits))


def test_hold_outlives_25_seconds_without_a_control_plane():
    pauses = list_longest_pauses()
    assert compute_probability(pauses, sum(pauses, Fraction(0))) == 1
    assert compute_probability(pauses, sum(pauses, Fraction(0)) / 2) == Fraction(1, 2)
    assert compute_probability(pauses, Fraction(25)) < Fraction(1, 250)


def test_hold_ends_within_minutes_if_the_control_plane_stays_away():
    pauses = list_longest_pauses()
    assert sum(pauses) < 210
