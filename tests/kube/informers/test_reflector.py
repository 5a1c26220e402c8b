"""The reflector on a scripted transport. Virtual time."""

import asyncio
from typing import Any

import pytest

from kilonova.kube import Backoff, ConnectionFailed, Reflector, Reply
from tests.kube.scripted_transport import (
    PODS,
    HangForever,
    Pause,
    Pod,
    ScriptedTransport,
    Stream,
    added,
    bookmark,
    client_over,
    deleted,
    error_event,
    error_reply,
    event,
    modified,
    page,
    pod,
)

pytestmark = pytest.mark.looptime


class ReflectorScenario:
    """A reflector on a scripted transport, and the calls of its event handlers."""

    def __init__(self, *script: Reply | Stream | Exception, **options: Any) -> None:
        self.wire = ScriptedTransport(list(script))
        backoff = Backoff(1.0, 8.0, jitter=lambda: 0.0)
        self.reflector = Reflector(
            client_over(self.wire), PODS, backoff=backoff, jitter=lambda: 0.0, **options
        )
        self.told: list[str] = []
        self.reflector.store.add_event_handler(self._handler)

    def _handler(self, old: Pod | None, new: Pod | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        self.told.append(sign + (new or old).metadata.name)  # type: ignore[union-attr]

    async def run_for(self, seconds: float = 0.5) -> None:
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


NO_WATCH_LIST = error_reply(422, "Invalid", "sendInitialEvents is forbidden for watch")


async def test_streaming_list_fills_the_store_and_continues_as_a_watch() -> None:
    scenario = ReflectorScenario(
        Stream(
            added("a", 1) + added("b", 2),
            bookmark(5, ends_initial_events=True) + modified("a", 6),
            deleted("b", 7),
            HangForever(),
        )
    )
    await scenario.run_for()
    assert scenario.told == ["+a", "+b", "~a", "-b"]
    assert scenario.content == {"a": "6"}
    assert scenario.reflector.resource_version == "7"
    assert scenario.query(0) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "300",
    }


async def test_changes_within_the_initial_events_are_applied() -> None:
    stream = Stream(
        added("a", 1),
        added("b", 2),
        modified("a", 3),
        deleted("b", 4),
        bookmark(4, ends_initial_events=True),
        HangForever(),
    )
    scenario = ReflectorScenario(stream)
    await scenario.run_for()
    assert scenario.told == ["+a"]
    assert scenario.content == {"a": "3"}


async def test_handlers_are_not_called_before_initial_events_are_complete() -> None:
    scenario = ReflectorScenario(Stream(added("a", 1), HangForever()))
    await scenario.run_for()
    assert scenario.told == []
    assert not scenario.reflector.has_synced


async def test_server_without_streaming_lists_is_listed_by_pages() -> None:
    scenario = ReflectorScenario(
        NO_WATCH_LIST,
        page(pod("a", 1), version=9, token="t"),
        page(pod("b", 2), version=9),
        Stream(added("c", 10), HangForever()),
        label_selector="x=y",
        field_selector="spec.nodeName=n",
    )
    await scenario.run_for()
    assert scenario.content == {"a": "1", "b": "2", "c": "10"}
    assert scenario.query(1)["limit"] == "500"
    assert scenario.query(3)["resourceVersion"] == "9"
    assert {scenario.query(n)["labelSelector"] for n in range(4)} == {"x=y"}
    assert {scenario.query(n)["fieldSelector"] for n in range(4)} == {"spec.nodeName=n"}


async def test_server_that_ignores_initial_events_is_listed() -> None:
    scenario = ReflectorScenario(
        Stream(added("a", 1), bookmark(3), HangForever()),
        page(pod("a", 1), version=3),
        Stream(HangForever()),
    )
    await scenario.run_for()
    assert scenario.reflector.has_synced
    assert scenario.content == {"a": "1"}


async def test_server_that_never_ends_initial_events_is_listed() -> None:
    scenario = ReflectorScenario(
        Stream(added("a", 1), HangForever()),
        page(pod("a", 1), version=3),
        Stream(HangForever()),
        idle_timeout=90,
    )
    await scenario.run_for(100)
    assert scenario.wire.times == [0, 91, 91]
    assert scenario.content == {"a": "1"}


async def test_closed_watch_resumes_from_the_last_version() -> None:
    start = bookmark(5, ends_initial_events=True)
    scenario = ReflectorScenario(
        Stream(start, added("a", 7)),
        Stream(Pause(2), added("b", 8)),
        Stream(bookmark(20), HangForever()),
    )
    await scenario.run_for(10)
    assert [scenario.query(n).get("resourceVersion") for n in (1, 2)] == ["7", "8"]
    assert scenario.wire.times == [0, 0, 2]
    assert scenario.told == ["+a", "+b"]


async def test_bookmarks_advance_the_version() -> None:
    scenario = ReflectorScenario(
        Stream(bookmark(5, ends_initial_events=True), bookmark(500)),
        Stream(added("a", 501), HangForever()),
    )
    await scenario.run_for()
    assert scenario.query(1)["resourceVersion"] == "500"
    assert scenario.told == ["+a"]


@pytest.mark.parametrize(
    "gone",
    [
        error_reply(410, "Expired"),
        Stream(error_event(410, "Expired")),
        error_reply(410, "Gone"),
    ],
)
async def test_expired_version_relists_and_notifies_differences(
    gone: Reply | Stream,
) -> None:
    scenario = ReflectorScenario(
        Stream(added("a", 1), added("b", 2), added("c", 3), bookmark(5, ends_initial_events=True)),
        gone,
        Stream(
            added("b", 2),
            added("c", 8),
            added("d", 9),
            bookmark(9, ends_initial_events=True),
            HangForever(),
        ),
    )
    await scenario.run_for(30)
    assert scenario.told == ["+a", "+b", "+c", "-a", "~c", "+d"]
    assert scenario.content == {"b": "2", "c": "8", "d": "9"}
    assert scenario.query(1)["resourceVersion"] == "5"
    assert "resourceVersion" not in scenario.query(2)


async def test_too_large_version_relists() -> None:
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}
    too_large = event("ERROR", {"code": 504, "reason": "Timeout", "details": details})
    scenario = ReflectorScenario(
        Stream(added("a", 900), bookmark(900, ends_initial_events=True), Pause(2)),
        Stream(too_large),
        Stream(added("b", 10), bookmark(10, ends_initial_events=True), HangForever()),
    )
    await scenario.run_for(10)
    assert scenario.content == {"b": "10"}


async def test_events_before_an_error_are_applied() -> None:
    scenario = ReflectorScenario(
        Stream(bookmark(5, ends_initial_events=True), added("a", 6) + error_event(500, "Oops")),
        Stream(HangForever()),
    )
    await scenario.run_for(5)
    assert scenario.told == ["+a"]
    assert scenario.query(1)["resourceVersion"] == "6"


async def test_idle_watch_is_replaced() -> None:
    scenario = ReflectorScenario(
        Stream(bookmark(5, ends_initial_events=True), Pause(80), bookmark(6), HangForever()),
        Stream(HangForever()),
        idle_timeout=90,
    )
    await scenario.run_for(200)
    assert scenario.wire.times == [0, 170]
    assert scenario.query(1)["resourceVersion"] == "6"


async def test_idle_watch_is_no_error_unless_the_server_is_unreachable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported: list[object] = []
    quiet = Stream(HangForever())
    scenario = ReflectorScenario(
        Stream(bookmark(5, ends_initial_events=True), HangForever()),
        quiet,
        quiet,
        ConnectionFailed("refused"),
        quiet,
        idle_timeout=90,
        on_watch_error=lambda error: reported.append(error and str(error)),
    )
    await scenario.run_for(280)
    assert scenario.wire.times == [0, 90, 180, 270, 271]
    assert reported == [None, None, None, "refused", None]
    assert [each.getMessage() for each in caplog.records] == ["watch failed, will retry"]


async def test_failures_are_retried_with_growing_delays() -> None:
    down = [ConnectionFailed("refused") for _ in range(6)]
    scenario = ReflectorScenario(
        *down, Stream(bookmark(5, ends_initial_events=True), HangForever())
    )
    await scenario.run_for(60)
    assert scenario.wire.times == [0, 1, 3, 7, 15, 23, 31]
    assert scenario.reflector.has_synced


async def test_watch_with_events_resets_the_backoff() -> None:
    broken = ConnectionFailed("reset")
    scenario = ReflectorScenario(
        broken,
        broken,
        Stream(bookmark(5, ends_initial_events=True), added("a", 6), broken),
        Stream(HangForever()),
    )
    await scenario.run_for(60)
    assert scenario.wire.times == [0, 1, 3, 4]
    assert scenario.told == ["+a"]


async def test_watches_that_end_at_once_back_off() -> None:
    scenario = ReflectorScenario(
        Stream(bookmark(5, ends_initial_events=True)), *[Stream() for _ in range(9)]
    )
    await scenario.run_for(20)
    assert scenario.wire.times == [0, 1, 3, 7, 15]


async def test_truncated_streaming_list_is_restarted() -> None:
    scenario = ReflectorScenario(
        Stream(added("a", 1)),
        Stream(added("b", 2), bookmark(3, ends_initial_events=True), HangForever()),
    )
    await scenario.run_for(5)
    assert scenario.told == ["+b"]


async def test_undecodable_object_is_left_out_until_it_decodes() -> None:
    bad = {**pod("a", 6), "spec": 7}
    scenario = ReflectorScenario(
        Stream(
            event("ADDED", bad) + added("b", 2) + bookmark(6, ends_initial_events=True),
            event("MODIFIED", {**pod("b", 7), "spec": 7}),
            modified("a", 8),
            HangForever(),
        )
    )
    await scenario.run_for()
    assert scenario.content == {"b": "2", "a": "8"}


async def test_object_that_becomes_undecodable_is_not_deleted() -> None:
    bad = {**pod("a", 6), "spec": 7}
    scenario = ReflectorScenario(
        NO_WATCH_LIST,
        page(pod("a", 1), pod("b", 1), version=2),
        Stream(error_event(410, "Expired")),
        page(bad, version=9),
        Stream(event("DELETED", bad), HangForever()),
    )
    await scenario.run_for(10)
    assert scenario.told == ["+a", "+b", "-b", "-a"]


async def test_wait_for_sync_ends_after_the_first_list() -> None:
    scenario = ReflectorScenario(
        Stream(Pause(3), added("a", 1) + bookmark(1, ends_initial_events=True), HangForever())
    )
    running = asyncio.create_task(scenario.reflector.run())
    await scenario.reflector.wait_for_sync()
    assert asyncio.get_running_loop().time() == 3
    assert scenario.content == {"a": "1"}
    running.cancel()


@pytest.mark.parametrize(
    ("optional", "code", "empty"),
    [
        (True, (404, "NotFound"), True),
        (False, (404, "NotFound"), False),
        # Permissions may be granted later: a forbidden list does not mean that the kind is empty.
        (True, (403, "Forbidden"), False),
    ],
)
async def test_only_optional_kinds_count_as_empty_when_not_served(
    optional: bool, code: tuple[int, str], empty: bool
) -> None:
    unknown = error_reply(*code, "no")
    stream = Stream(added("a", 1), bookmark(2, ends_initial_events=True), HangForever())
    scenario = ReflectorScenario(unknown, stream, optional=optional)
    await scenario.run_for(0.1)
    assert scenario.reflector.has_synced is empty
    await scenario.run_for(3)
    assert scenario.content == {"a": "1"}


async def test_required_kind_is_waited_for() -> None:
    stream = Stream(added("a", 1), bookmark(2, ends_initial_events=True), HangForever())
    scenario = ReflectorScenario(error_reply(404, "NotFound", "no such kind"), stream)
    await scenario.run_for(0.1)
    assert not scenario.reflector.has_synced
    await scenario.run_for(3)
    assert scenario.reflector.has_synced
    assert scenario.content == {"a": "1"}


async def test_watch_errors_and_recovery_are_reported() -> None:
    reported: list[str] = []
    filled = bookmark(2, ends_initial_events=True)
    forbidden = error_reply(403, "Forbidden", "no right")
    scenario = ReflectorScenario(
        forbidden,
        forbidden,
        Stream(filled, added("a", 3)),
        ConnectionFailed("cut"),
        Stream(HangForever()),
        on_watch_error=lambda error: reported.append(str(error)),
    )
    await scenario.run_for(60)
    rejection = "no right (403 Forbidden)"
    assert reported == [rejection, rejection, "None", "cut", "None"]


async def test_absent_optional_kind_is_no_watch_error() -> None:
    reported: list[object] = []
    absent = error_reply(404, "NotFound", "no")
    scenario = ReflectorScenario(
        absent, absent, Stream(HangForever()), optional=True, on_watch_error=reported.append
    )
    await scenario.run_for(2)
    assert set(reported) == {None}
