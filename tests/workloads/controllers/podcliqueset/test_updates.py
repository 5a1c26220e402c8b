"""Which replicas of a set are updated: a table of cases, and invariants."""

from collections.abc import Mapping
from dataclasses import replace as with_fields
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus
from kilonova.api.grove.podcliqueset import (
    SetRollingUpdate,
    SetUpdateProgress,
    StrategyType,
    UpdateStrategy,
    UpdatingReplica,
)
from kilonova.workloads.controllers.podcliqueset.replica_state import ReplicaState
from kilonova.workloads.controllers.podcliqueset.updates import advance_update
from kilonova.workloads.update_strategy import (
    count_desired_replicas,
    is_update_open,
    resolve_set_max_surge,
    resolve_set_max_unavailable,
)
from tests.workloads.api_objects import pod_clique_set

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TIME = "2026-05-01T00:00:00Z"
BEFORE = "2026-04-30T00:00:00Z"

AVAILABLE = ReplicaState(0, present=True, available=True, was_available=True, scheduled=True)
OLD = with_fields(AVAILABLE, outdated=True)
NEW = with_fields(AVAILABLE, updated=True)
BROKEN = with_fields(OLD, available=False, breached=True)
PENDING = with_fields(OLD, available=False, was_available=False, scheduled=False)
UNPLACED = with_fields(PENDING, outdated=False, updated=True)
UNPLACED_AFTER_UPDATE = with_fields(UNPLACED, was_available=True, unplaced_from=NOW)
PARTIALLY_SCHEDULED = with_fields(UNPLACED_AFTER_UPDATE, scheduled=True)
POSSIBLY_UNPLACED = with_fields(UNPLACED_AFTER_UPDATE, unplaced_from=NOW + timedelta(seconds=1))
STARTING = with_fields(NEW, available=False)
LOST_PODS = with_fields(NEW, has_lost_pods=True)
ABSENT = ReplicaState(0)
STATES_BY_LETTER = {
    "o": OLD,
    "n": NEW,
    "b": BROKEN,
    "p": PENDING,
    "h": UNPLACED,
    "u": UNPLACED_AFTER_UPDATE,
    "v": PARTIALLY_SCHEDULED,
    "d": POSSIBLY_UNPLACED,
    "s": STARTING,
    "f": LOST_PODS,
    ".": ABSENT,
}


def build_replicas(letters: str) -> dict[int, ReplicaState]:
    """The state of each replica by the letters of `STATES_BY_LETTER`."""
    return {
        index: with_fields(STATES_BY_LETTER[each], index=index)
        for index, each in enumerate(letters)
    }


def build_set(
    count: int,
    *updating: int,
    hash_: str = "new",
    before: int | None = None,
    begun: bool = True,
    ended: bool = False,
    strategy: StrategyType = "RollingRecreate",
    **rolling: Any,
) -> PodCliqueSet:
    """A set during an update to `new` by default."""
    progress = SetUpdateProgress(
        update_started_at=BEFORE,
        update_ended_at=BEFORE if ended else None,
        available_replicas_at_start=before,
        currently_updating=tuple(UpdatingReplica(each, BEFORE) for each in updating),
    )
    status = PodCliqueSetStatus(
        current_generation_hash=hash_, update_progress=progress if begun else None
    )
    options = UpdateStrategy(strategy, SetRollingUpdate(**rolling))
    return pod_clique_set(replicas=count, status=status, update_strategy=options)


def list_updating_replicas(progress: SetUpdateProgress | None) -> list[int]:
    return [each.replica_index for each in progress.currently_updating] if progress else []


@pytest.mark.parametrize(
    ("set_", "letters", "updating"),
    [
        (build_set(3), "ooo", [0]),
        (build_set(3, 0), "soo", [0]),
        (build_set(3, 0), "foo", [0]),
        (build_set(3, 0), "noo", [1]),
        (build_set(3, 2), "nno", [2]),
        (build_set(4, max_unavailable=2), "oooo", [0, 1]),
        (build_set(4, 0, max_unavailable=2), "sooo", [0, 1]),
        (build_set(4, max_unavailable="50%"), "oooo", [0, 1]),
        (build_set(3, max_unavailable="10%"), "ooo", [0]),
        (build_set(3, max_unavailable=0), "ooo", [0]),
        (build_set(4), "oobo", [2]),
        (build_set(4), "oobp", [3]),
        (build_set(4, max_unavailable=2), "oobp", [3, 2]),
        (build_set(4, max_unavailable=3), "oobp", [3, 2, 0]),
        (build_set(3, 2), "ooh", [0]),
        (build_set(3, 0), "soh", [0]),
        (build_set(3, 0), "noh", [1]),
        (build_set(4, 3), "oohh", [0]),
        (build_set(4, 0, max_unavailable=2), "sooh", [0, 1]),
        (build_set(4), "oosh", []),
        (build_set(3, 0), "uon", [0]),
        (build_set(3, 0, before=3), "uon", [0]),
        (build_set(3, 0, before=2), "uon", [1]),
        (build_set(3, 0, before=2), "uoh", [0]),
        (build_set(3, 0, before=2), "von", [1]),
        (build_set(3, 0, before=3), "von", [0]),
        (build_set(2, 0, before=1), "do", [0]),
        (build_set(3, 0, before=2), "son", [0]),
        (build_set(3, 0, before=3, max_surge=1, max_unavailable=0), "uoon", [0]),
        (build_set(3, max_surge=1, max_unavailable=0), "oooh", []),
        (build_set(4), "ooos", []),
        (build_set(4), "ooo.", []),
        (build_set(4, 2), "oobo", [2]),
        (build_set(2, 3), "oo", [0]),
        (build_set(3, max_surge=1, max_unavailable=0), "ooo", []),
        (build_set(3, max_surge=1, max_unavailable=0), "ooos", []),
        (build_set(3, max_surge=1, max_unavailable=0), "ooon", [0]),
        (build_set(3, max_surge=1), "ooon", [0, 1]),
    ],
)
def test_replicas_to_update_are_selected(
    set_: PodCliqueSet, letters: str, updating: list[int]
) -> None:
    progress = advance_update(set_, "new", build_replicas(letters), NOW)
    assert list_updating_replicas(progress) == updating
    assert is_update_open(progress)


def test_new_set_starts_no_update() -> None:
    set_ = build_set(2, hash_="", begun=False)
    assert advance_update(set_, "new", build_replicas(".."), NOW) is None
    assert advance_update(set_, "new", build_replicas("ns"), NOW) is None


def test_edit_starts_an_update() -> None:
    progress = advance_update(
        build_set(2, hash_="old", begun=False), "new", build_replicas("oo"), NOW
    )
    assert progress == SetUpdateProgress(
        update_started_at=TIME,
        available_replicas_at_start=2,
        currently_updating=(UpdatingReplica(0, TIME),),
    )


def test_edit_during_an_update_continues_with_the_updating_replica() -> None:
    progress = advance_update(build_set(3, 1, hash_="middle"), "new", build_replicas("obo"), NOW)
    assert progress is not None
    assert progress.update_started_at == TIME
    assert progress.currently_updating == (UpdatingReplica(1, TIME),)


def test_edit_during_an_update_keeps_available_replicas_at_start() -> None:
    set_ = build_set(3, 1, hash_="middle", before=3)
    progress = advance_update(set_, "new", build_replicas("obo"), NOW)
    assert progress is not None
    assert progress.available_replicas_at_start == 3


def test_rolled_back_edit_updates_only_updated_replicas() -> None:
    progress = advance_update(build_set(3, 1, hash_="middle"), "old", build_replicas("ono"), NOW)
    assert list_updating_replicas(progress) == [0]
    assert list_updating_replicas(
        advance_update(build_set(3, 1, hash_="middle"), "old", build_replicas("nbn"), NOW)
    ) == [1]


def test_update_ends_when_all_is_updated() -> None:
    progress = advance_update(build_set(3, 2), "new", build_replicas("nnn"), NOW)
    assert progress == SetUpdateProgress(update_started_at=BEFORE, update_ended_at=TIME)


def test_update_does_not_end_before_the_last_replica_is_available() -> None:
    progress = advance_update(build_set(3, 2), "new", build_replicas("nns"), NOW)
    assert list_updating_replicas(progress) == [2]


def test_update_ends_with_a_replica_that_is_unschedulable() -> None:
    assert not is_update_open(advance_update(build_set(3, 1), "new", build_replicas("nnh"), NOW))
    surging = build_set(3, max_surge=1, max_unavailable=0)
    assert not is_update_open(advance_update(surging, "new", build_replicas("nnhh"), NOW))


def test_surge_stays_until_all_others_are_available() -> None:
    options: Any = {"max_surge": 1, "max_unavailable": 0}
    assert is_update_open(
        advance_update(build_set(3, **options), "new", build_replicas("nss"), NOW)
    )
    assert not is_update_open(
        advance_update(build_set(3, **options), "new", build_replicas("nnn"), NOW)
    )


def test_update_without_outdated_replicas_ends() -> None:
    assert not is_update_open(advance_update(build_set(0, 1), "new", {}, NOW))


def test_ended_update_is_unchanged() -> None:
    set_ = build_set(2, ended=True)
    assert advance_update(set_, "new", build_replicas("ns"), NOW) == set_.status.update_progress


def test_on_delete_update_ends_at_once() -> None:
    set_ = build_set(2, hash_="old", strategy="OnDelete")
    progress = advance_update(set_, "new", build_replicas("oo"), NOW)
    assert progress == SetUpdateProgress(update_started_at=TIME, update_ended_at=TIME)


def test_switch_to_on_delete_stops_an_update() -> None:
    set_ = build_set(3, 1, strategy="OnDelete")
    progress = advance_update(set_, "new", build_replicas("nbo"), NOW)
    assert progress == SetUpdateProgress(update_started_at=BEFORE, update_ended_at=TIME)


def test_switch_from_on_delete_updates_outdated_replicas() -> None:
    progress = advance_update(build_set(3, ended=True), "new", build_replicas("noo"), NOW)
    assert progress == SetUpdateProgress(
        update_started_at=TIME,
        available_replicas_at_start=3,
        currently_updating=(UpdatingReplica(1, TIME),),
    )


_counts = st.none() | st.integers(0, 8) | st.integers(0, 100).map(lambda each: f"{each}%")


@st.composite
def _sets(draw: st.DrawFn) -> tuple[PodCliqueSet, str]:
    count = draw(st.integers(0, 8))
    set_ = build_set(
        count,
        hash_=draw(st.sampled_from(["old", "new"])),
        begun=draw(st.booleans()),
        max_unavailable=draw(_counts),
        max_surge=draw(_counts),
    )
    return set_, draw(st.text("onbphus.", min_size=count, max_size=count))


@given(_sets())
def test_no_more_updating_replicas_than_may_be_unavailable(case: tuple[PodCliqueSet, str]) -> None:
    set_, letters = case
    states = build_replicas(letters)
    chosen = list_updating_replicas(advance_update(set_, "new", states, NOW))
    assert (
        len(chosen)
        == len(set(chosen))
        <= resolve_set_max_unavailable(set_) + resolve_set_max_surge(set_)
    )
    assert all(states[each].outdated for each in chosen)
    taken = sum(states[each].available for each in chosen)
    left = sum(each.available for each in states.values()) - taken
    unplaced = sum(letters.count(each) for each in "phu")
    assert not taken or left >= set_.spec.replicas - unplaced - resolve_set_max_unavailable(set_)


@given(_sets(), st.randoms(use_true_random=False))
def test_every_update_ends(case: tuple[PodCliqueSet, str], random_data: Any) -> None:
    """Replicas in turn get updated and then available, in any order: all of them in the end."""
    set_, letters = case
    states = build_replicas(letters)
    for _ in range(200):
        progress = advance_update(set_, "new", states, NOW)
        status = replace(set_.status, update_progress=progress, current_generation_hash="new")
        set_ = PodCliqueSet(set_.metadata, set_.spec, status)
        assert list(states) == sorted(states), "indexes are stable"
        if not is_update_open(progress):
            break
        wanted = count_desired_replicas(set_)
        states = {
            index: states.get(index, with_fields(ABSENT, index=index)) for index in range(wanted)
        }
        states = _random_step(states, list_updating_replicas(progress), random_data)
    assert not is_update_open(set_.status.update_progress)
    assert not any(states[index].outdated for index in range(set_.spec.replicas))


def _random_step(
    states: Mapping[int, ReplicaState], updating: list[int], random_data: Any
) -> dict[int, ReplicaState]:
    """One replica gets on: a new one comes up, one in turn is replaced."""
    moving = [
        index
        for index, each in states.items()
        if not each.available and (not each.outdated or index in updating)
    ]
    moving += [index for index in updating if states[index].outdated]
    result = dict(states)
    if moving:
        index = random_data.choice(moving)
        old = states[index]
        result[index] = with_fields(
            STARTING if old.outdated or not old.present else NEW, index=index
        )
    return result
