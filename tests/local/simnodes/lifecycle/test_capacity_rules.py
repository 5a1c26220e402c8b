"""Capacity of simulated machines: how rules are read, and that none is exceeded."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.simnodes.fleet.model import FleetCapacityRule
from kilonova.local.simnodes.lifecycle.capacity import (
    CapacityRule,
    InvalidRules,
    MachineRequest,
    build_config_map,
    find_exceeded_rule,
    parse_rules,
)

NOW = datetime(2026, 11, 18, 16, tzinfo=UTC)
P5 = MachineRequest("p5.48xlarge", "zone-a", "spot")

machines = st.sampled_from(["m", "n"])
zones = st.sampled_from(["a", "b"])
markets = st.sampled_from(["spot", "on-demand"])
requests = st.builds(MachineRequest, machines, zones, markets)
rules = st.lists(
    st.builds(
        CapacityRule,
        machines | st.just(""),
        zones | st.just(""),
        markets | st.just(""),
        st.integers(0, 3),
    ),
    max_size=4,
)


def config_map(text: str) -> dict[str, dict[str, str]]:
    return {"data": {"rules": text}}


@pytest.mark.parametrize(
    ("rule", "launched", "fits"),
    [
        (CapacityRule(), 0, False),
        (CapacityRule(limit=1), 0, True),
        (CapacityRule(limit=1), 1, False),
        (CapacityRule("p5.48xlarge", limit=2), 1, True),
        (CapacityRule("p4d.24xlarge"), 5, True),
        (CapacityRule(zone="zone-b"), 5, True),
        (CapacityRule(market="on-demand"), 5, True),
        (CapacityRule(market="spot"), 0, False),
        (CapacityRule(until="2026-11-18T16:00:01Z"), 0, False),
        (CapacityRule(until="2026-11-18T16:00:00Z"), 0, True),
    ],
)
def test_a_rule_limits_what_it_applies_to(rule: CapacityRule, launched: int, fits: bool) -> None:
    exceeded = find_exceeded_rule([rule], P5, [P5] * launched, NOW)
    assert exceeded == (None if fits else rule)


@given(rules, st.lists(requests, max_size=20), st.data())
def test_no_rule_is_ever_exceeded_and_none_refuses_below_its_limit(
    rules: list[CapacityRule], wanted: list[MachineRequest], data: st.DataObject
) -> None:
    launched: list[MachineRequest] = []
    for request in wanted:
        rule = find_exceeded_rule(rules, request, launched, NOW)
        if rule is None:
            launched.append(request)
        else:
            assert count(rule, launched) >= rule.limit
        for each in rules:
            assert count(each, launched) <= each.limit
        if launched and data.draw(st.booleans()):
            launched.pop()


def count(rule: CapacityRule, launched: list[MachineRequest]) -> int:
    return sum(
        rule.machine in ("", each.machine)
        and rule.zone in ("", each.zone)
        and rule.market in ("", each.market)
        for each in launched
    )


def test_the_rules_of_a_fleet_end_after_their_duration() -> None:
    written = build_config_map(
        [FleetCapacityRule("m", "a", "spot", 2, "5m"), FleetCapacityRule("n")], NOW
    )
    until = (NOW + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert parse_rules(written) == (
        CapacityRule("m", "a", "spot", 2, until),
        CapacityRule("n"),
    )


@pytest.mark.parametrize("found", [{}, {"data": {}}, config_map(""), config_map("[]")])
def test_without_rules_everything_can_be_launched(found: dict[str, dict[str, str]]) -> None:
    assert parse_rules(found) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "rules: not YAML"),
        ("- {until: tomorrow}", 'rules[0].until: "tomorrow" is not a time'),
        ("- {size: 1}", "write a list of rules with machine, zone, market, limit, until"),
        ("limit: 1", "Expected `array`"),
    ],
)
def test_invalid_rules_name_field_value_and_fix(text: str, problem: str) -> None:
    with pytest.raises(InvalidRules) as error:
        parse_rules(config_map(text))
    assert "ConfigMap kube-system/simulated-capacity" in str(error.value)
    assert problem in str(error.value)
