"""Conditions: what is found, set and removed, and when the transition time changes."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kilonova.api.meta import Condition
from kilonova.api.times import format_rfc3339
from kilonova.kube.status import (
    encode_condition,
    find_condition,
    has_same_content,
    is_condition_true,
    with_condition,
    without_condition,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
READY = Condition("Ready", "False", "Starting", "0 of 2 pods", format_rfc3339(NOW))
HEALTHY = Condition("Healthy", "True", "Probed", "", format_rfc3339(NOW))


@pytest.mark.parametrize(
    ("new", "expected_time"),
    [
        (Condition("Ready", "False", "Starting", "1 of 2 pods"), NOW),
        (Condition("Ready", "False", "Failed", "no image"), NOW),
        (Condition("Ready", "True", "AllReady", "2 of 2 pods"), LATER),
        (Condition("Ready", "Unknown", "NodeLost", ""), LATER),
    ],
)
def test_transition_time_changes_only_with_the_status(
    new: Condition, expected_time: datetime
) -> None:
    expected = msgspec.structs.replace(new, last_transition_time=format_rfc3339(expected_time))
    assert with_condition((READY, HEALTHY), new, LATER) == (expected, HEALTHY)


def test_new_condition_is_appended_with_the_current_time() -> None:
    added = with_condition((READY,), Condition("Healthy", "True"), LATER)
    assert added == (
        READY,
        Condition("Healthy", "True", last_transition_time=format_rfc3339(LATER)),
    )


def test_missing_transition_time_is_filled() -> None:
    (found,) = with_condition((Condition("Ready", "True"),), Condition("Ready", "True"), NOW)
    assert found.last_transition_time == format_rfc3339(NOW)


def test_condition_is_found_and_removed_by_type() -> None:
    assert find_condition((READY, HEALTHY), "Healthy") is HEALTHY
    assert find_condition((READY,), "Healthy") is None
    assert without_condition((READY, HEALTHY), "Ready") == (HEALTHY,)


def test_only_status_true_is_true() -> None:
    assert is_condition_true((HEALTHY,), "Healthy")
    assert not is_condition_true((READY,), "Ready")
    assert not is_condition_true((Condition("Ready", "Unknown"),), "Ready")
    assert not is_condition_true((), "Ready")


def test_content_is_status_reason_and_message() -> None:
    assert has_same_content(READY, Condition("Ready", "False", "Starting", "0 of 2 pods"))
    assert not has_same_content(READY, Condition("Ready", "False", "Starting", "1 of 2 pods"))
    assert not has_same_content(None, READY)


def test_encoded_condition_has_no_null() -> None:
    assert encode_condition(READY) == {
        "type": "Ready",
        "status": "False",
        "reason": "Starting",
        "message": "0 of 2 pods",
        "lastTransitionTime": "2026-05-01T12:00:00Z",
    }


class RolloutCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition with a field of its own."""

    type: str
    status: str
    last_update_time: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


def test_conditions_of_another_type_keep_their_own_fields() -> None:
    old = RolloutCondition("Progressing", "True", "a", last_transition_time=format_rfc3339(NOW))
    (found,) = with_condition((old,), RolloutCondition("Progressing", "True", "b"), LATER)
    assert (found.last_update_time, found.last_transition_time) == ("b", format_rfc3339(NOW))
