"""The reflector against a scripted wire. Virtual time."""

import asyncio
from typing import Any

import pytest

from kilonova.kube import Backoff, ConnectionFailed, Reflector, Reply
from tests.kube.wire import (
    PODS,
    Hang,
    Pause,
    Pod,
    Stream,
    Wire,
    added,
    bookmark,
    client_on,
    deleted,
    error_event,
    event,
    modified,
    page,
    pod,
    refused,
)

pytestmark = pytest.mark.looptime


class Scene:
    """A reflector at work on a scripted wire, and what its handlers were told."""

    def __init__(self, *script: Reply | Stream | Exception, **options: Any) -> None:
        self.wire = Wire(list(script))
        backoff = Backoff(1.0, 8.0, jitter=lambda: 0.0)
        self.reflector = Reflector(
            client_on(self.wire), PODS, backoff=backoff, jitter=lambda: 0.0, **options
        )
        self.told: list[str] = []
        self.reflector.store.subscribe(self._handler)

    def _handler(self, old: Pod | None, new: Pod | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        self.told.append(sign + (new or old).metadata.name)  # type: ignore[union-attr]

    async def play(self, seconds: float = 0.5) -> None:
        """Run for some (virtual) time, then cancel."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.reflector.run()

    @property
    def content(self) -> dict[str, str]:
        store = self.reflector.store
        return {p.metadata.name: p.metadata.resource_version for p in store.objects()}

    def query(self, number: int) -> dict[str, str]:
        return dict(self.wire.requests[number].query)


NO_STREAMING_LISTS = refused(422, "Invalid", "sendInitialEvents is forbidden for watch")


async def test_a_streaming_list_fills_the_store_and_goes_on_as_a_watch() -> None:
    scene = Scene(
        Stream(
            added("a", 1) + added("b", 2),
            bookmark(5, ends_initial_events=True) + modified("a", 6),
            deleted("b", 7),
            Hang(),
        )
    )
    await scene.play()
    assert scene.told == ["+a", "+b", "~a", "-b"]
    assert scene.content == {"a": "6"}
    assert scene.reflector.resource_version == "7"
    assert scene.query(0) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "300",
    }


async def test_changes_within_the_initial_events_are_taken_into_account() -> None:
    stream = Stream(
        added("a", 1),
        added("b", 2),
        modified("a", 3),
        deleted("b", 4),
        bookmark(4, ends_initial_events=True),
        Hang(),
    )
    scene = Scene(stream)
    await scene.play()
    assert scene.told == ["+a"]
    assert scene.content == {"a": "3"}


async def test_nothing_is_told_before_the_initial_events_are_complete() -> None:
    scene = Scene(Stream(added("a", 1), Hang()))
    await scene.play()
    assert scene.told == []
    assert not scene.reflector.synced


async def test_a_server_without_streaming_lists_is_listed_by_pages() -> None:
    scene = Scene(
        NO_STREAMING_LISTS,
        page(pod("a", 1), version=9, token="t"),
        page(pod("b", 2), version=9),
        Stream(added("c", 10), Hang()),
        labels="x=y",
        fields="spec.nodeName=n",
    )
    await scene.play()
    assert scene.content == {"a": "1", "b": "2", "c": "10"}
    assert scene.query(1)["limit"] == "500"
    assert scene.query(3)["resourceVersion"] == "9"
    assert {scene.query(n)["labelSelector"] for n in range(4)} == {"x=y"}
    assert {scene.query(n)["fieldSelector"] for n in range(4)} == {"spec.nodeName=n"}


async def test_a_server_that_ignores_the_wish_for_initial_events_is_listed() -> None:
    scene = Scene(
        Stream(added("a", 1), bookmark(3), Hang()), page(pod("a", 1), version=3), Stream(Hang())
    )
    await scene.play()
    assert scene.reflector.synced
    assert scene.content == {"a": "1"}


async def test_a_server_that_never_ends_the_initial_events_is_listed() -> None:
    scene = Scene(
        Stream(added("a", 1), Hang()), page(pod("a", 1), version=3), Stream(Hang()), silence=90
    )
    await scene.play(100)
    assert scene.wire.times == [0, 91, 91]
    assert scene.content == {"a": "1"}


async def test_a_closed_watch_resumes_from_the_last_version_at_once() -> None:
    start = bookmark(5, ends_initial_events=True)
    scene = Scene(
        Stream(start, added("a", 7)), Stream(Pause(2), added("b", 8)), Stream(bookmark(20), Hang())
    )
    await scene.play(10)
    assert [scene.query(n).get("resourceVersion") for n in (1, 2)] == ["7", "8"]
    assert scene.wire.times == [0, 0, 2]
    assert scene.told == ["+a", "+b"]


async def test_bookmarks_move_the_version_on() -> None:
    scene = Scene(
        Stream(bookmark(5, ends_initial_events=True), bookmark(500)),
        Stream(added("a", 501), Hang()),
    )
    await scene.play()
    assert scene.query(1)["resourceVersion"] == "500"
    assert scene.told == ["+a"]


@pytest.mark.parametrize(
    "gone",
    [
        refused(410, "Expired"),
        Stream(error_event(410, "Expired")),
        refused(410, "Gone"),
    ],
)
async def test_a_version_too_old_lists_again_and_tells_what_was_missed(
    gone: Reply | Stream,
) -> None:
    scene = Scene(
        Stream(added("a", 1), added("b", 2), added("c", 3), bookmark(5, ends_initial_events=True)),
        gone,
        Stream(
            added("b", 2),
            added("c", 8),
            added("d", 9),
            bookmark(9, ends_initial_events=True),
            Hang(),
        ),
    )
    await scene.play(30)
    assert scene.told == ["+a", "+b", "+c", "-a", "~c", "+d"]
    assert scene.content == {"b": "2", "c": "8", "d": "9"}
    assert scene.query(1)["resourceVersion"] == "5"
    assert "resourceVersion" not in scene.query(2)


async def test_a_version_from_before_a_restore_lists_again() -> None:
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}
    too_large = event("ERROR", {"code": 504, "reason": "Timeout", "details": details})
    scene = Scene(
        Stream(added("a", 900), bookmark(900, ends_initial_events=True), Pause(2)),
        Stream(too_large),
        Stream(added("b", 10), bookmark(10, ends_initial_events=True), Hang()),
    )
    await scene.play(10)
    assert scene.content == {"b": "10"}


async def test_the_events_before_an_error_are_kept() -> None:
    scene = Scene(
        Stream(bookmark(5, ends_initial_events=True), added("a", 6) + error_event(500, "Oops")),
        Stream(Hang()),
    )
    await scene.play(5)
    assert scene.told == ["+a"]
    assert scene.query(1)["resourceVersion"] == "6"


async def test_a_stream_gone_silent_is_given_up_for_another() -> None:
    scene = Scene(
        Stream(bookmark(5, ends_initial_events=True), Pause(80), bookmark(6), Hang()),
        Stream(Hang()),
        silence=90,
    )
    await scene.play(200)
    assert scene.wire.times == [0, 170]
    assert scene.query(1)["resourceVersion"] == "6"


async def test_silence_is_no_trouble_unless_nobody_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[object] = []
    quiet = Stream(Hang())
    scene = Scene(
        Stream(bookmark(5, ends_initial_events=True), Hang()),
        quiet,
        quiet,
        ConnectionFailed("refused"),
        quiet,
        silence=90,
        on_trouble=lambda error: told.append(error and str(error)),
    )
    await scene.play(280)
    assert scene.wire.times == [0, 90, 180, 270, 271]
    assert told == [None, None, None, "refused", None]
    assert [each.getMessage() for each in caplog.records] == ["watch failed, will retry"]


async def test_failures_are_retried_with_growing_delays() -> None:
    down = [ConnectionFailed("refused") for _ in range(6)]
    scene = Scene(*down, Stream(bookmark(5, ends_initial_events=True), Hang()))
    await scene.play(60)
    assert scene.wire.times == [0, 1, 3, 7, 15, 23, 31]
    assert scene.reflector.synced


async def test_a_watch_that_heard_something_starts_the_delays_anew() -> None:
    broken = ConnectionFailed("reset")
    scene = Scene(
        broken,
        broken,
        Stream(bookmark(5, ends_initial_events=True), added("a", 6), broken),
        Stream(Hang()),
    )
    await scene.play(60)
    assert scene.wire.times == [0, 1, 3, 4]
    assert scene.told == ["+a"]


async def test_a_server_that_ends_every_watch_at_once_is_not_stormed() -> None:
    scene = Scene(Stream(bookmark(5, ends_initial_events=True)), *[Stream() for _ in range(9)])
    await scene.play(20)
    assert scene.wire.times == [0, 1, 3, 7, 15]


async def test_a_streaming_list_cut_off_before_its_end_is_begun_again() -> None:
    scene = Scene(
        Stream(added("a", 1)),
        Stream(added("b", 2), bookmark(3, ends_initial_events=True), Hang()),
    )
    await scene.play(5)
    assert scene.told == ["+b"]


async def test_an_object_that_does_not_fit_its_type_is_left_out_until_it_does() -> None:
    bad = {**pod("a", 6), "spec": 7}
    scene = Scene(
        Stream(
            event("ADDED", bad) + added("b", 2) + bookmark(6, ends_initial_events=True),
            event("MODIFIED", {**pod("b", 7), "spec": 7}),
            modified("a", 8),
            Hang(),
        )
    )
    await scene.play()
    assert scene.content == {"b": "2", "a": "8"}


async def test_an_object_that_no_longer_fits_is_not_taken_for_deleted() -> None:
    bad = {**pod("a", 6), "spec": 7}
    scene = Scene(
        NO_STREAMING_LISTS,
        page(pod("a", 1), pod("b", 1), version=2),
        Stream(error_event(410, "Expired")),
        page(bad, version=9),
        Stream(event("DELETED", bad), Hang()),
    )
    await scene.play(10)
    assert scene.told == ["+a", "+b", "-b", "-a"]


async def test_waiting_for_the_first_list_ends_when_it_is_in_the_store() -> None:
    scene = Scene(Stream(Pause(3), added("a", 1) + bookmark(1, ends_initial_events=True), Hang()))
    running = asyncio.create_task(scene.reflector.run())
    await scene.reflector.wait_synced()
    assert asyncio.get_running_loop().time() == 3
    assert scene.content == {"a": "1"}
    running.cancel()


@pytest.mark.parametrize(
    ("optional", "code", "empty"),
    [
        (True, (404, "NotFound"), True),
        (False, (404, "NotFound"), False),
        # Rights may come late: who may not look does not know that there is nothing.
        (True, (403, "Forbidden"), False),
    ],
)
async def test_only_a_kind_that_is_optional_counts_as_empty_where_it_is_not_known(
    optional: bool, code: tuple[int, str], empty: bool
) -> None:
    unknown = refused(*code, "no")
    stream = Stream(added("a", 1), bookmark(2, ends_initial_events=True), Hang())
    scene = Scene(unknown, stream, optional=optional)
    await scene.play(0.1)
    assert scene.reflector.synced is empty
    await scene.play(3)
    assert scene.content == {"a": "1"}


async def test_a_kind_that_is_not_served_yet_is_waited_for_unless_told_otherwise() -> None:
    stream = Stream(added("a", 1), bookmark(2, ends_initial_events=True), Hang())
    scene = Scene(refused(404, "NotFound", "no such kind"), stream)
    await scene.play(0.1)
    assert not scene.reflector.synced
    await scene.play(3)
    assert scene.reflector.synced
    assert scene.content == {"a": "1"}


async def test_why_it_fails_is_told_each_time_and_that_it_no_longer_does() -> None:
    told: list[str] = []
    filled = bookmark(2, ends_initial_events=True)
    forbidden = refused(403, "Forbidden", "no right")
    scene = Scene(
        forbidden,
        forbidden,
        Stream(filled, added("a", 3)),
        ConnectionFailed("cut"),
        Stream(Hang()),
        on_trouble=lambda error: told.append(str(error)),
    )
    await scene.play(60)
    refusal = "no right (403 Forbidden)"
    assert told == [refusal, refusal, "None", "cut", "None"]


async def test_a_kind_that_may_be_absent_and_is_is_no_trouble() -> None:
    told: list[object] = []
    absent = refused(404, "NotFound", "no")
    scene = Scene(absent, absent, Stream(Hang()), optional=True, on_trouble=told.append)
    await scene.play(2)
    assert set(told) == {None}
