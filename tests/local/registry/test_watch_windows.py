"""Watches that are idle, late, early, or too slow, and tokens that are too old. Virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from looptime import LoopTimeEventLoop

from kilonova.kube.transport import Reply, StreamReply
from kilonova.local.cluster import Cluster
from kilonova.local.storage import store as storage
from tests.local.embedded_cluster import running
from tests.local.registry.conversation import MAPS, ask, lines, read, watch

pytestmark = pytest.mark.looptime


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    # Fixtures run in real time, and the store must not see it go backwards.
    loop = cast(LoopTimeEventLoop, asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        with loop.looptime_enabled():
            cluster = await stack.enter_async_context(running(controllers=""))
        yield cluster


async def write(cluster: Cluster, name: str, n: int = 0) -> int:
    body = {"metadata": {"name": name}, "data": {"n": str(n)}}
    made = await read(cluster, MAPS, "POST", body)
    if made.get("code") == 409:
        made = await read(cluster, f"{MAPS}/{name}", "PUT", body)
    return int(made["metadata"]["resourceVersion"])


async def let_the_window_pass(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a hundred thousand changes had been made since, and more than a minute had passed."""
    monkeypatch.setattr(storage, "WINDOW_EVENTS", 3)
    for number in range(10):
        await write(cluster, "noise", number)
    await asyncio.sleep(80)
    cluster.store.trim()


def summary(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_ends_when_its_time_is_over(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    events = [e async for e in await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=7")]
    assert events == []
    assert loop.time() - begun == pytest.approx(7, abs=0.1)


async def test_a_watch_without_a_time_ends_between_half_an_hour_and_an_hour(
    cluster: Cluster,
) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async for _ in await watch(cluster, f"{MAPS}?watch=1"):
        pass
    assert 1800 <= loop.time() - begun <= 3600


async def test_an_idle_watch_hears_every_minute_how_far_the_server_is(cluster: Cluster) -> None:
    url = f"{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150"
    stream = await watch(cluster, url)
    await read(cluster, "/api/v1/namespaces", "POST", {"metadata": {"name": "elsewhere"}})
    events = [event async for event in stream]
    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]
    bookmark = events[0]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert bookmark["metadata"]["resourceVersion"] == str(cluster.store.rv)


async def test_a_watch_that_wants_no_bookmarks_gets_none(cluster: Cluster) -> None:
    assert [e async for e in await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=200")] == []


async def test_a_bookmark_can_be_resumed_from(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is what they are for: the resource is quiet while others pass the window."""
    url = f"{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=70"
    begin = cluster.store.rv
    for number in range(10):
        await read(cluster, "/api/v1/namespaces", "POST", {"metadata": {"name": f"n{number}"}})
    [bookmark] = [event async for event in await watch(cluster, f"{url}&resourceVersion={begin}")]
    monkeypatch.setattr(storage, "WINDOW_EVENTS", 3)
    await asyncio.sleep(80)
    cluster.store.trim()
    at = bookmark["object"]["metadata"]["resourceVersion"]
    stream = await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={at}")
    await write(cluster, "new")
    assert [summary(event) async for event in stream] == [("ADDED", "new")]
    late = await watch(cluster, f"{MAPS}?watch=1&resourceVersion={begin}")
    [error] = [event async for event in late]
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)


async def test_a_watch_from_a_version_that_is_forgotten_is_told_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = await write(cluster, "first")
    await let_the_window_pass(cluster, monkeypatch)
    [error] = [e async for e in await watch(cluster, f"{MAPS}?watch=1&resourceVersion={begin}")]
    assert error["type"] == "ERROR"
    assert error["object"]["code"] == 410
    assert error["object"]["reason"] == "Expired"


async def test_a_watch_that_falls_behind_is_told_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=500&resourceVersion=0")
    await write(cluster, "first")
    assert (await anext(stream))["type"] == "ADDED"
    await let_the_window_pass(cluster, monkeypatch)
    events = [event async for event in stream]
    assert events[-1]["type"] == "ERROR"
    assert events[-1]["object"]["code"] == 410
    assert len(events) == 1


async def test_a_list_in_the_past_is_refused_once_it_is_forgotten(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = await write(cluster, "first")
    await let_the_window_pass(cluster, monkeypatch)
    page = await read(cluster, f"{MAPS}?resourceVersion={begin}&resourceVersionMatch=Exact")
    assert (page["code"], page["reason"]) == (410, "Expired")


async def test_a_forgotten_page_comes_with_a_token_to_go_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        await write(cluster, name)
    first = await read(cluster, f"{MAPS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    await let_the_window_pass(cluster, monkeypatch)
    await read(cluster, f"{MAPS}/d", "DELETE")
    token = first["metadata"]["continue"]
    refused = await read(cluster, f"{MAPS}?limit=2&continue={token}")
    assert (refused["code"], refused["reason"]) == (410, "Expired")
    assert "inconsistent list" in refused["message"]
    names: list[str] = []
    token = refused["metadata"]["continue"]
    while token:
        page = await read(cluster, f"{MAPS}?limit=2&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["c", "e", "noise"]


async def test_a_deletion_shows_the_last_state_at_the_version_of_the_deletion(
    cluster: Cluster,
) -> None:
    made = await write(cluster, "a", 7)
    url = f"{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={made}"
    stream = await watch(cluster, url)
    await read(cluster, f"{MAPS}/a", "DELETE")
    [deleted] = [event async for event in stream]
    assert summary(deleted) == ("DELETED", "a")
    assert deleted["object"]["data"] == {"n": "7"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) == cluster.store.rv > made


async def test_writes_between_the_answer_and_the_first_line_are_told_once(
    cluster: Cluster,
) -> None:
    await write(cluster, "old")
    url = (
        f"{MAPS}?watch=1&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    )
    reply = await ask(cluster, url + "&allowWatchBookmarks=true")
    assert isinstance(reply, StreamReply)
    await write(cluster, "new", 1)
    await write(cluster, "new", 2)
    await read(cluster, f"{MAPS}/old", "DELETE")
    copy: dict[str, int] = {}
    for event in [event async for event in lines(reply.chunks)]:
        if event["type"] == "BOOKMARK":
            continue
        name = event["object"]["metadata"]["name"]
        version = int(event["object"]["metadata"]["resourceVersion"])
        assert version > copy.get(name, 0), f"{event['type']} goes back in time"
        assert (event["type"] == "ADDED") == (name not in copy)
        copy[name] = version
        if event["type"] == "DELETED":
            del copy[name]
    assert list(copy) == ["new"]


async def test_a_list_from_the_future_is_refused(cluster: Cluster) -> None:
    reply = await ask(cluster, f"{MAPS}?resourceVersion=99999999")
    assert isinstance(reply, Reply)
    assert reply.status == 504


@pytest.mark.parametrize(
    "where", [f"{MAPS}?", "/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault&"]
)
async def test_large_objects_come_whole_between_small_ones(cluster: Cluster, where: str) -> None:
    """In the initial state and as events; no chunk is as large as they are."""
    sizes = [1, 300_000, 1, 1, 131_072, 131_072, 500_000] + [1_000] * 600
    names = [f"m{number:03}" for number in range(len(sizes))]
    after = [*names, "later", *names[:2]]

    async def put(name: str, size: int, method: str = "POST") -> None:
        body = {"metadata": {"name": name}, "data": {"a": "x" * size}}
        at = MAPS if method == "POST" else f"{MAPS}/{name}"
        assert "code" not in await read(cluster, at, method, body)

    for name, size in zip(names, sizes, strict=True):
        await put(name, size)
    url = f"{where}watch=1&resourceVersion=0&timeoutSeconds=5"
    reply = await ask(cluster, url)
    assert isinstance(reply, StreamReply)
    chunks: list[bytes] = []

    async def noted() -> AsyncIterator[bytes]:
        async for chunk in reply.chunks:
            chunks.append(chunk)
            yield chunk

    stream = lines(noted())
    seen = [await anext(stream) for _ in names]
    for name, size in [("later", 400_000), (names[0], 400_000), (names[1], 2)]:
        await put(name, size, "POST" if name == "later" else "PUT")
    seen += [event async for event in stream]
    assert [event["object"]["metadata"]["name"] for event in seen] == after
    expected = [*sizes, 400_000, 400_000, 2]
    assert [len(event["object"]["data"]["a"]) for event in seen] == expected
    assert max(map(len, chunks)) < 300_000
    assert len(chunks) < 100
