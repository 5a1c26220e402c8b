"""Load admission: when a group refuses requests, and when it does so no longer."""

import pytest

from kilonova.api.serving import LoadLimit
from kilonova.serving.signals.model import GroupSignals, ServiceSignals
from kilonova.serving.signals.overload import find_overloaded

IN_FLIGHT = LoadLimit(in_flight_per_replica=10)
QUEUE = LoadLimit(queue_time="100ms")
QUERY = LoadLimit(query="load", threshold=5)
LLM = frozenset({"llm"})


@pytest.mark.parametrize(
    ("limit", "figures", "query", "was_overloaded", "expected"),
    [
        (IN_FLIGHT, GroupSignals(in_flight=20), None, False, False),
        (IN_FLIGHT, GroupSignals(in_flight=21), None, False, True),
        (IN_FLIGHT, GroupSignals(in_flight=15, pending=6), None, False, True),
        (IN_FLIGHT, GroupSignals(in_flight=17), None, True, True),
        (IN_FLIGHT, GroupSignals(in_flight=16), None, True, False),
        (IN_FLIGHT, GroupSignals(), None, True, False),
        (QUEUE, GroupSignals(mean_queue_time=0.11), None, False, True),
        (QUEUE, GroupSignals(mean_queue_time=0.09), None, False, False),
        (QUEUE, GroupSignals(mean_queue_time=0.09), None, True, True),
        (QUEUE, GroupSignals(in_flight=1000), None, True, False),
        (QUERY, GroupSignals(), 5.1, False, True),
        (QUERY, GroupSignals(), 4.5, True, True),
        (QUERY, GroupSignals(), 1e-05, True, False),
        (QUERY, GroupSignals(), None, True, False),
        (None, GroupSignals(in_flight=1000), 1000.0, True, False),
    ],
)
def test_group_is_overloaded(
    limit: LoadLimit | None,
    figures: GroupSignals,
    query: float | None,
    was_overloaded: bool,
    expected: bool,
) -> None:
    signals = ServiceSignals(0.0, {"llm": figures}, load_query=query)
    found = find_overloaded(limit, signals, {"llm": 2}, LLM if was_overloaded else frozenset())
    assert bool(found) is expected


def test_group_without_a_ready_server_is_not_overloaded() -> None:
    signals = ServiceSignals(0.0, {"llm": GroupSignals(in_flight=50)})
    assert find_overloaded(IN_FLIGHT, signals, {}, frozenset()) == {}


def test_load_around_the_limit_does_not_flap() -> None:
    before: frozenset[str] = frozenset()
    changes = 0
    for in_flight in [19, 21] * 50:
        signals = ServiceSignals(0.0, {"llm": GroupSignals(in_flight=in_flight)})
        after = frozenset(find_overloaded(IN_FLIGHT, signals, {"llm": 2}, before))
        changes += after != before
        before = after
    assert changes == 1


def test_cause_has_the_figures() -> None:
    signals = ServiceSignals(0.0, {"llm": GroupSignals(in_flight=25)})
    found = find_overloaded(IN_FLIGHT, signals, {"llm": 2}, frozenset())
    assert str(found["llm"]) == "in flight per server 12.5 > 10"
