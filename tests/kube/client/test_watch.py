"""Chunks of a watch are decoded to events, whatever their boundaries."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube import Added, Bookmark, ConnectionFailed, Deleted, Expired, Modified, WatchStream
from kilonova.kube.client.codec import Undecodable
from tests.kube.scripted_transport import (
    Pod,
    added,
    bookmark,
    deleted,
    error_event,
    event,
    modified,
)

LINES = b"".join(
    [
        added("ä", 1),
        modified("b", 2, "node-1"),
        bookmark(3),
        deleted("ä", 4),
        bookmark(5, ends_initial_events=True),
    ]
)


async def _chunks(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


async def _events(*chunks: bytes, type_: Any = Pod) -> list[Any]:
    return [event async for batch in WatchStream(_chunks(*chunks), type_) for event in batch]


@given(st.sets(st.integers(1, len(LINES) - 1)))
def test_events_do_not_depend_on_chunk_boundaries(cuts: set[int]) -> None:
    bounds = [0, *sorted(cuts), len(LINES)]
    chunks = [LINES[start:end] for start, end in pairwise(bounds)]
    events = asyncio.run(_events(*chunks))
    assert events == asyncio.run(_events(LINES))
    assert [type(event) for event in events] == [Added, Modified, Bookmark, Deleted, Bookmark]


async def test_all_lines_of_a_chunk_are_one_batch() -> None:
    batches = [batch async for batch in WatchStream(_chunks(LINES, added("c", 6)), Pod)]
    assert [len(batch) for batch in batches] == [5, 1]


async def test_only_the_marked_bookmark_ends_the_initial_events() -> None:
    plain_one, marked = (event for event in await _events(LINES) if isinstance(event, Bookmark))
    assert (plain_one.resource_version, plain_one.ends_initial_events) == ("3", False)
    assert (marked.resource_version, marked.ends_initial_events) == ("5", True)


async def test_incomplete_last_line_is_dropped() -> None:
    assert len(await _events(added("a", 1) + added("b", 2)[:-5])) == 1


async def test_error_event_is_raised_after_earlier_events() -> None:
    stream = aiter(WatchStream(_chunks(added("a", 1) + error_event(410, "Expired")), Pod))
    assert len(await anext(stream)) == 1
    with pytest.raises(Expired):
        await anext(stream)


async def test_objects_can_stay_unstructured() -> None:
    (found,) = await _events(added("a", 1, "n"), type_=dict)
    assert found.object["spec"]["containers"] == [{"name": "main", "image": "x"}]


async def test_undecodable_object_does_not_hide_other_events() -> None:
    bad = {"metadata": {"name": "bad", "namespace": "x", "resourceVersion": "2"}, "spec": 7}
    lines = [added("a", 1), event("MODIFIED", bad), event("DELETED", bad), added("b", 3)]
    first, broken, gone, last = await _events(b"".join(lines))
    assert (first.object.metadata.name, last.object.metadata.name) == ("a", "b")
    assert isinstance(broken, Undecodable)
    assert (broken.namespace, broken.name, broken.resource_version) == ("x", "bad", "2")
    assert "Expected `object`, got `int`" in broken.problem
    assert (broken.deleted, gone.deleted) == (False, True)


async def test_invalid_json_is_a_connection_failure() -> None:
    with pytest.raises(ConnectionFailed, match="invalid JSON"):
        await _events(b"<html>\n")
