"""What must hold of every decision."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.serving import (
    Autoscaling,
    DemandTarget,
    MetricTarget,
    ScaleToZero,
    ScalingRate,
    SlaTarget,
)
from kilonova.serving.autoscaler.decision import decide
from kilonova.serving.autoscaler.model import Observation, ScalingMemory
from kilonova.serving.signals import GroupSignals
from tests.harness.campaigns import limit_examples
from tests.serving.autoscaler.observations import Group, distribution, observe

MODES: list[dict[str, Any]] = [
    {},
    {"demand": DemandTarget(in_flight_per_replica=4, utilization=1.0)},
    {"metric": MetricTarget(query="q", threshold=5)},
    {"metric": MetricTarget(query="q", threshold=5, per_replica=False)},
    {"sla": SlaTarget(latency="500ms")},
    {"sla": SlaTarget(latency="500ms"), "demand": DemandTarget()},
]
RATES = st.sampled_from([ScalingRate(), ScalingRate(max_replicas=2), ScalingRate("3s")])


@st.composite
def scalings(draw: st.DrawFn) -> Autoscaling:
    minimum = draw(st.integers(0, 3))
    return Autoscaling(
        min_replicas=minimum,
        max_replicas=draw(st.integers(max(1, minimum), 12)),
        scale_up=draw(RATES),
        scale_down=draw(RATES),
        scale_to_zero=ScaleToZero(idle_after="20s"),
        **draw(st.sampled_from(MODES)),
    )


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@st.composite
def group_signals(draw: st.DrawFn) -> GroupSignals:
    seconds = draw(maybe(st.floats(0.001, 100)))
    return GroupSignals(
        in_flight=draw(maybe(st.integers(0, 500))),
        pending=draw(maybe(st.integers(0, 50))),
        queued=draw(maybe(st.integers(0, 50))),
        held=draw(st.integers(0, 3)),
        arrivals_per_second=draw(maybe(st.floats(0, 1000))),
        requests_per_second=draw(maybe(st.floats(0, 1000))),
        distributions={} if seconds is None else {"latency": distribution(seconds)},
    )


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    replicas = draw(st.integers(0, 15))
    return observe(
        0,
        replicas=replicas,
        ready=draw(st.integers(0, replicas)),
        signals=draw(maybe(group_signals())),
        is_complete=draw(st.booleans()),
        held=draw(st.integers(0, 20)),
        metric=draw(maybe(st.floats(0, 1000))),
    )


@given(scalings(), st.lists(st.tuples(observations(), st.floats(0.1, 60)), min_size=1, max_size=8))
@settings(max_examples=limit_examples(400))
def test_bounds_hold_whatever_is_observed(
    scaling: Autoscaling, seen: list[tuple[Observation, float]]
) -> None:
    now, memory = 0.0, None
    for observation, elapsed in seen:
        now += elapsed
        decision = decide(scaling, replace(observation, now=now), memory)
        memory = decision.memory
        assert scaling.min_replicas <= decision.desired <= scaling.max_replicas
        assert decision.message


@given(scalings(), st.lists(st.tuples(observations(), st.floats(0.1, 60)), min_size=1, max_size=8))
@settings(max_examples=limit_examples(400))
def test_there_is_a_server_while_there_are_requests(
    scaling: Autoscaling, seen: list[tuple[Observation, float]]
) -> None:
    now, memory = 0.0, None
    for observation, elapsed in seen:
        now += elapsed
        decision = decide(scaling, replace(observation, now=now), memory)
        memory = decision.memory
        signals = observation.signals
        if observation.held or (observation.replicas and signals and signals.demand):
            assert decision.desired >= 1


@given(scalings(), observations())
@settings(max_examples=limit_examples(200))
def test_nothing_is_removed_without_figures(scaling: Autoscaling, observation: Observation) -> None:
    memory = decide(scaling, observation).memory
    blind = replace(observation, now=10_000.0, signals=None, is_complete=False, metric=None)
    expected = min(max(observation.replicas, scaling.min_replicas), scaling.max_replicas)
    assert decide(scaling, blind, memory).desired >= expected


@given(
    st.sampled_from([MODES[0], MODES[1], MODES[4]]),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(1, 10),
)
@settings(max_examples=limit_examples(200))
def test_more_requests_never_mean_fewer_servers(
    mode: dict[str, Any], one: int, other: int, replicas: int
) -> None:
    scaling = Autoscaling(max_replicas=50, **mode)
    fewer, more = (
        decide(scaling, observe(in_flight, replicas=replicas)).desired
        for in_flight in sorted((one, other))
    )
    assert fewer <= more


@given(st.sampled_from(MODES[:2]), st.integers(0, 100), st.integers(1, 10), st.integers(0, 20))
@settings(max_examples=limit_examples(60))
def test_constant_load_does_not_flap(
    mode: dict[str, Any], in_flight: int, replicas: int, startup: int
) -> None:
    group = Group(Autoscaling(max_replicas=30, **mode), replicas=replicas, startup=startup)
    numbers = group.run([in_flight] * 150)
    changes = [b - a for a, b in pairwise(numbers) if a != b]
    # It rises, or it sinks, and stays.
    assert all(each > 0 for each in changes) or all(each < 0 for each in changes)
    assert len(set(numbers[90:])) == 1


@given(observations())
def test_decision_is_a_function_of_its_values(observation: Observation) -> None:
    scaling = Autoscaling(max_replicas=8, min_replicas=0)
    memory = ScalingMemory()
    assert decide(scaling, observation, memory) == decide(scaling, observation, memory)


@given(st.floats(0, 1e300), st.floats(0, 1e300))
def test_absurd_rates_are_harmless(arrivals: float, answers: float) -> None:
    for mode in MODES:
        group = Group(Autoscaling(max_replicas=5, **mode))
        signals = GroupSignals(
            in_flight=50,
            pending=0,
            arrivals_per_second=arrivals,
            requests_per_second=answers,
            distributions={"latency": distribution(2.0)},
        )
        for _ in range(3):
            assert 1 <= group.step(signals) <= 5
