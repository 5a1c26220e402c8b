"""The checks of the kill test detect the violations they are for."""

from tests.faults.write_ledger import KeyHistory, WatchedEvent, WriteLedger


def test_missing_acknowledged_write_is_lost() -> None:
    ledger = WriteLedger(
        keys={"a": KeyHistory(value=2), "b": KeyHistory(value=1), "c": KeyHistory(value=None)}
    )
    assert ledger.find_lost_writes({"a": 2, "b": 1}) == []
    assert len(ledger.find_lost_writes({"a": 1})) == 2


def test_reverted_acknowledged_delete_is_lost() -> None:
    assert WriteLedger(keys={"a": KeyHistory(value=None)}).find_lost_writes({"a": 4})


def test_unacknowledged_write_may_have_happened_or_not() -> None:
    ledger = WriteLedger(keys={"a": KeyHistory(value=1, unacknowledged=[2])})
    assert ledger.find_lost_writes({"a": 1}) == ledger.find_lost_writes({"a": 2}) == []
    assert ledger.find_lost_writes({"a": 3})


def test_versions_are_unique_and_increasing() -> None:
    ledger = WriteLedger()
    ledger.acknowledge("a", 1, version=5)
    ledger.acknowledge("b", 1, version=5)
    assert len(ledger.violations) == 1
    ledger.raise_floor()
    ledger.acknowledge("a", 2, version=4)
    assert len(ledger.violations) == 2


def test_a_write_that_the_watch_missed_is_a_gap() -> None:
    ledger = WriteLedger()
    for version in (5, 6, 7):
        ledger.acknowledge("a", version, version)
    ledger.observe("a", WatchedEvent(5, "ADDED", 5))
    ledger.observe("a", WatchedEvent(7, "MODIFIED", 7))
    assert len(ledger.find_watch_gaps()) == 1


def test_events_that_cannot_follow_each_other_are_violations() -> None:
    ledger = WriteLedger()
    ledger.observe("a", WatchedEvent(5, "ADDED", 1))
    ledger.observe("a", WatchedEvent(6, "ADDED", 2))
    ledger.observe("b", WatchedEvent(6, "MODIFIED", 1))
    assert len(ledger.violations) == 3
