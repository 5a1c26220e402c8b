"""Watches that are idle, late, early or too slow, and expired tokens. Virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from looptime import LoopTimeEventLoop

from kilonova.kube.client.transport import Reply, StreamReply
from kilonova.local.apiserver.storage import revision_store as storage
from kilonova.local.cluster import EmbeddedCluster
from tests.local.apiserver.registry.api_requests import MAPS, decode_events, read, send, watch
from tests.local.embedded_cluster import run_cluster

pytestmark = pytest.mark.looptime


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    # Fixtures run in real time, and the store's clock must not go backwards.
    loop = cast(LoopTimeEventLoop, asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        with loop.looptime_enabled():
            cluster = await stack.enter_async_context(run_cluster(controllers=""))
        yield cluster


async def write(cluster: EmbeddedCluster, name: str, n: int = 0) -> int:
    body = {"metadata": {"name": name}, "data": {"n": str(n)}}
    result = await read(cluster, MAPS, "POST", body)
    if result.get("code") == 409:
        result = await read(cluster, f"{MAPS}/{name}", "PUT", body)
    return int(result["metadata"]["resourceVersion"])


async def expire_watch_cache(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a hundred thousand changes and more than a minute."""
    monkeypatch.setattr(storage, "WATCH_CACHE_EVENTS", 3)
    for number in range(10):
        await write(cluster, "noise", number)
    await asyncio.sleep(80)
    cluster.store.trim_watch_cache()


def summary(event: Any) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def test_watch_ends_at_its_timeout(cluster: EmbeddedCluster) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    events = [e async for e in await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=7")]
    assert events == []
    assert loop.time() - started == pytest.approx(7, abs=0.1)


async def test_default_watch_timeout_is_between_30_and_60_minutes(
    cluster: EmbeddedCluster,
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async for _ in await watch(cluster, f"{MAPS}?watch=1"):
        pass
    assert 1800 <= loop.time() - started <= 3600


async def test_idle_watch_gets_a_bookmark_every_minute(cluster: EmbeddedCluster) -> None:
    url = f"{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150"
    stream = await watch(cluster, url)
    await read(cluster, "/api/v1/namespaces", "POST", {"metadata": {"name": "elsewhere"}})
    events = [event async for event in stream]
    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]
    bookmark = events[0]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert bookmark["metadata"]["resourceVersion"] == str(cluster.store.revision)


async def test_watch_without_allow_bookmarks_gets_none(cluster: EmbeddedCluster) -> None:
    assert [e async for e in await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=200")] == []


async def test_watch_can_resume_from_a_bookmark(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purpose of bookmarks: the resource is idle while others fill the watch cache."""
    url = f"{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=70"
    begin = cluster.store.revision
    for number in range(10):
        await read(cluster, "/api/v1/namespaces", "POST", {"metadata": {"name": f"n{number}"}})
    [bookmark] = [event async for event in await watch(cluster, f"{url}&resourceVersion={begin}")]
    monkeypatch.setattr(storage, "WATCH_CACHE_EVENTS", 3)
    await asyncio.sleep(80)
    cluster.store.trim_watch_cache()
    at = bookmark["object"]["metadata"]["resourceVersion"]
    stream = await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={at}")
    await write(cluster, "new")
    assert [summary(event) async for event in stream] == [("ADDED", "new")]
    late = await watch(cluster, f"{MAPS}?watch=1&resourceVersion={begin}")
    [error] = [event async for event in late]
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)


async def test_watch_from_a_compacted_version_is_expired(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = await write(cluster, "first")
    await expire_watch_cache(cluster, monkeypatch)
    [error] = [e async for e in await watch(cluster, f"{MAPS}?watch=1&resourceVersion={begin}")]
    assert error["type"] == "ERROR"
    assert error["object"]["code"] == 410
    assert error["object"]["reason"] == "Expired"


async def test_watch_that_falls_behind_is_expired(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await watch(cluster, f"{MAPS}?watch=1&timeoutSeconds=500&resourceVersion=0")
    await write(cluster, "first")
    assert (await anext(stream))["type"] == "ADDED"
    await expire_watch_cache(cluster, monkeypatch)
    events = [event async for event in stream]
    assert events[-1]["type"] == "ERROR"
    assert events[-1]["object"]["code"] == 410
    assert len(events) == 1


async def test_list_at_a_compacted_version_is_rejected(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = await write(cluster, "first")
    await expire_watch_cache(cluster, monkeypatch)
    page = await read(cluster, f"{MAPS}?resourceVersion={begin}&resourceVersionMatch=Exact")
    assert (page["code"], page["reason"]) == (410, "Expired")


async def test_expired_continue_token_comes_with_a_new_one(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        await write(cluster, name)
    first = await read(cluster, f"{MAPS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    await expire_watch_cache(cluster, monkeypatch)
    await read(cluster, f"{MAPS}/d", "DELETE")
    token = first["metadata"]["continue"]
    error = await read(cluster, f"{MAPS}?limit=2&continue={token}")
    assert (error["code"], error["reason"]) == (410, "Expired")
    assert "inconsistent list" in error["message"]
    names: list[str] = []
    token = error["metadata"]["continue"]
    while token:
        page = await read(cluster, f"{MAPS}?limit=2&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["c", "e", "noise"]


async def test_deletion_event_has_the_last_state_at_the_deletion_version(
    cluster: EmbeddedCluster,
) -> None:
    result = await write(cluster, "a", 7)
    url = f"{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={result}"
    stream = await watch(cluster, url)
    await read(cluster, f"{MAPS}/a", "DELETE")
    [deleted] = [event async for event in stream]
    assert summary(deleted) == ("DELETED", "a")
    assert deleted["object"]["data"] == {"n": "7"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) == cluster.store.revision > result


async def test_writes_before_the_first_line_are_sent_once(
    cluster: EmbeddedCluster,
) -> None:
    await write(cluster, "old")
    url = (
        f"{MAPS}?watch=1&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    )
    reply = await send(cluster, url + "&allowWatchBookmarks=true")
    assert isinstance(reply, StreamReply)
    await write(cluster, "new", 1)
    await write(cluster, "new", 2)
    await read(cluster, f"{MAPS}/old", "DELETE")
    copy: dict[str, int] = {}
    for event in [event async for event in decode_events(reply.chunks)]:
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


async def test_list_at_a_future_version_is_rejected(cluster: EmbeddedCluster) -> None:
    reply = await send(cluster, f"{MAPS}?resourceVersion=99999999")
    assert isinstance(reply, Reply)
    assert reply.status == 504


@pytest.mark.parametrize(
    "where", [f"{MAPS}?", "/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault&"]
)
async def test_large_objects_are_complete_between_small_ones(
    cluster: EmbeddedCluster, where: str
) -> None:
    """In the initial state and as events; no chunk is as large as these objects."""
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
    reply = await send(cluster, url)
    assert isinstance(reply, StreamReply)
    chunks: list[bytes] = []

    async def noted() -> AsyncIterator[bytes]:
        async for chunk in reply.chunks:
            chunks.append(chunk)
            yield chunk

    stream = decode_events(noted())
    seen = [await anext(stream) for _ in names]
    for name, size in [("later", 400_000), (names[0], 400_000), (names[1], 2)]:
        await put(name, size, "POST" if name == "later" else "PUT")
    seen += [event async for event in stream]
    assert [event["object"]["metadata"]["name"] for event in seen] == after
    expected = [*sizes, 400_000, 400_000, 2]
    assert [len(event["object"]["data"]["a"]) for event in seen] == expected
    assert max(map(len, chunks)) < 300_000
    assert len(chunks) < 100
