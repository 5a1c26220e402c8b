"""Whose turn it is in an update of a set: a table of cases, and what always holds."""

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
from kilonova.workloads.sets.desire import (
    is_under_way,
    most_surge,
    most_unavailable,
    wanted_replicas,
)
from kilonova.workloads.sets.updates import next_progress
from kilonova.workloads.sets.view import ReplicaView
from tests.workloads.builders import pod_clique_set

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TIME = "2026-05-01T00:00:00Z"
BEFORE = "2026-04-30T00:00:00Z"

UP = ReplicaView(0, present=True, available=True, was_up=True, scheduled=True)
OLD = with_fields(UP, outdated=True)
NEW = with_fields(UP, updated=True)
BROKEN = with_fields(OLD, available=False, breached=True)
PENDING = with_fields(OLD, available=False, was_up=False, scheduled=False)
HOMELESS = with_fields(PENDING, outdated=False, updated=True)
OUSTED = with_fields(HOMELESS, was_up=True, homeless_from=NOW)
HALVED = with_fields(OUSTED, scheduled=True)
DOUBTED = with_fields(OUSTED, homeless_from=NOW + timedelta(seconds=1))
STARTING = with_fields(NEW, available=False)
FILLING = with_fields(NEW, lacking=True)
ABSENT = ReplicaView(0)
LETTERS = {
    "o": OLD,
    "n": NEW,
    "b": BROKEN,
    "p": PENDING,
    "h": HOMELESS,
    "u": OUSTED,
    "v": HALVED,
    "d": DOUBTED,
    "s": STARTING,
    "f": FILLING,
    ".": ABSENT,
}


def replicas(letters: str) -> dict[int, ReplicaView]:
    """A letter for each replica: old, new, broken, pending, starting, filling, absent; homeless is
    pending of the new revision, and ousted so after it was up, halved if some pods have nodes,
    doubted if that may yet change."""
    return {index: with_fields(LETTERS[each], index=index) for index, each in enumerate(letters)}


def set_of(
    count: int,
    *turns: int,
    hash_: str = "new",
    before: int | None = None,
    begun: bool = True,
    ended: bool = False,
    strategy: StrategyType = "RollingRecreate",
    **rolling: Any,
) -> PodCliqueSet:
    """A set in the middle of an update to `new`, unless it is told otherwise."""
    progress = SetUpdateProgress(
        update_started_at=BEFORE,
        update_ended_at=BEFORE if ended else None,
        available_replicas_at_start=before,
        currently_updating=tuple(UpdatingReplica(each, BEFORE) for each in turns),
    )
    status = PodCliqueSetStatus(
        current_generation_hash=hash_, update_progress=progress if begun else None
    )
    how = UpdateStrategy(strategy, SetRollingUpdate(**rolling))
    return pod_clique_set(replicas=count, status=status, update_strategy=how)


def turns_of(progress: SetUpdateProgress | None) -> list[int]:
    return [each.replica_index for each in progress.currently_updating] if progress else []


@pytest.mark.parametrize(
    ("set_", "letters", "turns"),
    [
        (set_of(3), "ooo", [0]),
        (set_of(3, 0), "soo", [0]),
        (set_of(3, 0), "foo", [0]),
        (set_of(3, 0), "noo", [1]),
        (set_of(3, 2), "nno", [2]),
        (set_of(4, max_unavailable=2), "oooo", [0, 1]),
        (set_of(4, 0, max_unavailable=2), "sooo", [0, 1]),
        (set_of(4, max_unavailable="50%"), "oooo", [0, 1]),
        (set_of(3, max_unavailable="10%"), "ooo", [0]),
        (set_of(3, max_unavailable=0), "ooo", [0]),
        (set_of(4), "oobo", [2]),
        (set_of(4), "oobp", [3]),
        (set_of(4, max_unavailable=2), "oobp", [3, 2]),
        (set_of(4, max_unavailable=3), "oobp", [3, 2, 0]),
        (set_of(3, 2), "ooh", [0]),
        (set_of(3, 0), "soh", [0]),
        (set_of(3, 0), "noh", [1]),
        (set_of(4, 3), "oohh", [0]),
        (set_of(4, 0, max_unavailable=2), "sooh", [0, 1]),
        (set_of(4), "oosh", []),
        (set_of(3, 0), "uon", [0]),
        (set_of(3, 0, before=3), "uon", [0]),
        (set_of(3, 0, before=2), "uon", [1]),
        (set_of(3, 0, before=2), "uoh", [0]),
        (set_of(3, 0, before=2), "von", [1]),
        (set_of(3, 0, before=3), "von", [0]),
        (set_of(2, 0, before=1), "do", [0]),
        (set_of(3, 0, before=2), "son", [0]),
        (set_of(3, 0, before=3, max_surge=1, max_unavailable=0), "uoon", [0]),
        (set_of(3, max_surge=1, max_unavailable=0), "oooh", []),
        (set_of(4), "ooos", []),
        (set_of(4), "ooo.", []),
        (set_of(4, 2), "oobo", [2]),
        (set_of(2, 3), "oo", [0]),
        (set_of(3, max_surge=1, max_unavailable=0), "ooo", []),
        (set_of(3, max_surge=1, max_unavailable=0), "ooos", []),
        (set_of(3, max_surge=1, max_unavailable=0), "ooon", [0]),
        (set_of(3, max_surge=1), "ooon", [0, 1]),
    ],
)
def test_turns(set_: PodCliqueSet, letters: str, turns: list[int]) -> None:
    progress = next_progress(set_, "new", replicas(letters), NOW)
    assert turns_of(progress) == turns
    assert is_under_way(progress)


def test_first_sight_of_a_set_is_no_update() -> None:
    set_ = set_of(2, hash_="", begun=False)
    assert next_progress(set_, "new", replicas(".."), NOW) is None
    assert next_progress(set_, "new", replicas("ns"), NOW) is None


def test_edit_begins_an_update() -> None:
    progress = next_progress(set_of(2, hash_="old", begun=False), "new", replicas("oo"), NOW)
    assert progress == SetUpdateProgress(
        update_started_at=TIME,
        available_replicas_at_start=2,
        currently_updating=(UpdatingReplica(0, TIME),),
    )


def test_edit_in_an_update_goes_on_with_the_replica_whose_turn_it_is() -> None:
    progress = next_progress(set_of(3, 1, hash_="middle"), "new", replicas("obo"), NOW)
    assert progress is not None
    assert progress.update_started_at == TIME
    assert progress.currently_updating == (UpdatingReplica(1, TIME),)


def test_edit_in_an_update_remembers_how_many_were_available_before_it() -> None:
    set_ = set_of(3, 1, hash_="middle", before=3)
    progress = next_progress(set_, "new", replicas("obo"), NOW)
    assert progress is not None
    assert progress.available_replicas_at_start == 3


def test_edit_taken_back_updates_only_what_had_been_updated() -> None:
    progress = next_progress(set_of(3, 1, hash_="middle"), "old", replicas("ono"), NOW)
    assert turns_of(progress) == [0]
    assert turns_of(next_progress(set_of(3, 1, hash_="middle"), "old", replicas("nbn"), NOW)) == [1]


def test_update_ends_when_all_is_updated() -> None:
    progress = next_progress(set_of(3, 2), "new", replicas("nnn"), NOW)
    assert progress == SetUpdateProgress(update_started_at=BEFORE, update_ended_at=TIME)


def test_update_does_not_end_before_the_last_replica_is_available() -> None:
    progress = next_progress(set_of(3, 2), "new", replicas("nns"), NOW)
    assert turns_of(progress) == [2]


def test_update_ends_though_there_is_no_room_for_a_replica() -> None:
    assert not is_under_way(next_progress(set_of(3, 1), "new", replicas("nnh"), NOW))
    surging = set_of(3, max_surge=1, max_unavailable=0)
    assert not is_under_way(next_progress(surging, "new", replicas("nnhh"), NOW))


def test_surge_stays_until_all_others_are_available() -> None:
    how: Any = {"max_surge": 1, "max_unavailable": 0}
    assert is_under_way(next_progress(set_of(3, **how), "new", replicas("nss"), NOW))
    assert not is_under_way(next_progress(set_of(3, **how), "new", replicas("nnn"), NOW))


def test_nothing_left_to_update_ends_an_update() -> None:
    assert not is_under_way(next_progress(set_of(0, 1), "new", {}, NOW))


def test_ended_update_stays_as_it_was() -> None:
    set_ = set_of(2, ended=True)
    assert next_progress(set_, "new", replicas("ns"), NOW) == set_.status.update_progress


def test_on_delete_ends_at_its_beginning() -> None:
    set_ = set_of(2, hash_="old", strategy="OnDelete")
    progress = next_progress(set_, "new", replicas("oo"), NOW)
    assert progress == SetUpdateProgress(update_started_at=TIME, update_ended_at=TIME)


def test_switch_to_on_delete_stops_an_update() -> None:
    set_ = set_of(3, 1, strategy="OnDelete")
    progress = next_progress(set_, "new", replicas("nbo"), NOW)
    assert progress == SetUpdateProgress(update_started_at=BEFORE, update_ended_at=TIME)


def test_switch_from_on_delete_updates_what_was_left_outdated() -> None:
    progress = next_progress(set_of(3, ended=True), "new", replicas("noo"), NOW)
    assert progress == SetUpdateProgress(
        update_started_at=TIME,
        available_replicas_at_start=3,
        currently_updating=(UpdatingReplica(1, TIME),),
    )


_counts = st.none() | st.integers(0, 8) | st.integers(0, 100).map(lambda each: f"{each}%")


@st.composite
def _sets(draw: st.DrawFn) -> tuple[PodCliqueSet, str]:
    count = draw(st.integers(0, 8))
    set_ = set_of(
        count,
        hash_=draw(st.sampled_from(["old", "new"])),
        begun=draw(st.booleans()),
        max_unavailable=draw(_counts),
        max_surge=draw(_counts),
    )
    return set_, draw(st.text("onbphus.", min_size=count, max_size=count))


@given(_sets())
def test_no_more_turns_than_may_be_unavailable(case: tuple[PodCliqueSet, str]) -> None:
    set_, letters = case
    views = replicas(letters)
    chosen = turns_of(next_progress(set_, "new", views, NOW))
    assert len(chosen) == len(set(chosen)) <= most_unavailable(set_) + most_surge(set_)
    assert all(views[each].outdated for each in chosen)
    taken = sum(views[each].available for each in chosen)
    left = sum(each.available for each in views.values()) - taken
    homeless = sum(letters.count(each) for each in "phu")
    assert not taken or left >= set_.spec.replicas - homeless - most_unavailable(set_)


@given(_sets(), st.randoms(use_true_random=False))
def test_every_update_ends(case: tuple[PodCliqueSet, str], chance: Any) -> None:
    """Replicas in turn get updated and then available, in any order: all of them in the end."""
    set_, letters = case
    views = replicas(letters)
    for _ in range(200):
        progress = next_progress(set_, "new", views, NOW)
        status = replace(set_.status, update_progress=progress, current_generation_hash="new")
        set_ = PodCliqueSet(set_.metadata, set_.spec, status)
        assert list(views) == sorted(views), "indexes are stable"
        if not is_under_way(progress):
            break
        wanted = wanted_replicas(set_)
        views = {
            index: views.get(index, with_fields(ABSENT, index=index)) for index in range(wanted)
        }
        views = _a_step(views, turns_of(progress), chance)
    assert not is_under_way(set_.status.update_progress)
    assert not any(views[index].outdated for index in range(set_.spec.replicas))


def _a_step(
    views: Mapping[int, ReplicaView], turns: list[int], chance: Any
) -> dict[int, ReplicaView]:
    """One replica gets on: a new one comes up, one in turn is replaced."""
    moving = [
        index
        for index, each in views.items()
        if not each.available and (not each.outdated or index in turns)
    ]
    moving += [index for index in turns if views[index].outdated]
    result = dict(views)
    if moving:
        index = chance.choice(moving)
        old = views[index]
        result[index] = with_fields(
            STARTING if old.outdated or not old.present else NEW, index=index
        )
    return result
