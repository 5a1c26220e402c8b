"""The judge of the kill test: it must see what it is there to see."""

from tests.faults.ledger import Key, Ledger, Seen


def test_an_acknowledged_write_that_is_gone_is_lost() -> None:
    ledger = Ledger(keys={"a": Key(value=2), "b": Key(value=1), "c": Key(value=None)})
    assert ledger.lost({"a": 2, "b": 1}) == []
    assert len(ledger.lost({"a": 1})) == 2


def test_an_acknowledged_delete_that_came_back_is_lost() -> None:
    assert Ledger(keys={"a": Key(value=None)}).lost({"a": 4})


def test_a_write_without_an_answer_may_have_happened_or_not() -> None:
    ledger = Ledger(keys={"a": Key(value=1, doubt=[2])})
    assert ledger.lost({"a": 1}) == ledger.lost({"a": 2}) == []
    assert ledger.lost({"a": 3})


def test_a_version_is_given_out_once_and_never_goes_back() -> None:
    ledger = Ledger()
    ledger.acknowledge("a", 1, version=5)
    ledger.acknowledge("b", 1, version=5)
    assert len(ledger.violations) == 1
    ledger.raise_floor()
    ledger.acknowledge("a", 2, version=4)
    assert len(ledger.violations) == 2


def test_a_write_that_the_watch_missed_is_a_gap() -> None:
    ledger = Ledger()
    for version in (5, 6, 7):
        ledger.acknowledge("a", version, version)
    ledger.observe("a", Seen(5, "ADDED", 5))
    ledger.observe("a", Seen(7, "MODIFIED", 7))
    assert len(ledger.gaps()) == 1


def test_events_that_cannot_follow_each_other_are_violations() -> None:
    ledger = Ledger()
    ledger.observe("a", Seen(5, "ADDED", 1))
    ledger.observe("a", Seen(6, "ADDED", 2))
    ledger.observe("b", Seen(6, "MODIFIED", 1))
    assert len(ledger.violations) == 3
