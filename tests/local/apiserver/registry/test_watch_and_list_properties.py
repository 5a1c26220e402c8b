"""Lists and watches under any history: a client that follows them has the server's state."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.kube.client.transport import StreamReply
from kilonova.local.cluster import EmbeddedCluster
from tests.harness.campaigns import limit_examples
from tests.local.apiserver.registry.api_requests import (
    MAPS,
    decode_events,
    in_virtual_time,
    read,
    send,
)

NAMES = "abcd"
NAMESPACES = ("default", "kube-public")
ALL = "/api/v1/configmaps"
HORIZON = 100


@dataclass(frozen=True)
class Put:
    namespace: str
    name: str
    color: str | None


@dataclass(frozen=True)
class Remove:
    namespace: str
    name: str


@dataclass(frozen=True)
class StartWatch:
    """Start a watch; its connection breaks after every so many events."""

    path: str
    selector: str
    initial_events: bool
    breaks_after: int


@dataclass(frozen=True)
class Yield:
    """Yield to other tasks."""


Step = Put | Remove | StartWatch | Yield

writes = st.builds(
    Put,
    st.sampled_from(NAMESPACES),
    st.sampled_from(NAMES),
    st.sampled_from([None, "red", "blue"]),
) | st.builds(Remove, st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
selectors = st.sampled_from(
    [
        "",
        "labelSelector=color%3Dred",
        "labelSelector=color+in+(red,blue)",
        "labelSelector=!color",
        "labelSelector=color!%3Dred",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name!%3Da&labelSelector=color%3Dblue",
        "fieldSelector=metadata.namespace%3Ddefault",
    ]
)
follows = st.builds(
    StartWatch, st.sampled_from([ALL, MAPS]), selectors, st.booleans(), st.integers(1, 6)
)
steps = st.lists(writes | writes | writes | follows | st.just(Yield()), max_size=30)


async def take_step(cluster: EmbeddedCluster, step: Put | Remove, number: int) -> None:
    base = f"/api/v1/namespaces/{step.namespace}/configmaps"
    if isinstance(step, Remove):
        await read(cluster, f"{base}/{step.name}", "DELETE")
        return
    labels = {"color": step.color} if step.color else {}
    body = {
        "metadata": {"name": step.name, "namespace": step.namespace, "labels": labels},
        "data": {"n": str(number)},
    }
    if (await read(cluster, f"{base}/{step.name}", "PUT", body)).get("code") == 404:
        await read(cluster, base, "POST", body)


def version(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


def key(obj: Any) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


async def listed(cluster: EmbeddedCluster, follow: StartWatch) -> tuple[dict[Any, int], int]:
    page = await read(cluster, f"{follow.path}?{follow.selector}")
    return {key(item): version(item) for item in page["items"]}, version(page)


@dataclass
class Watcher:
    """Keeps a copy of the selected objects, and checks that every event is consistent with it."""

    cluster: EmbeddedCluster
    follow: StartWatch
    copy: dict[Any, int] = field(default_factory=dict[Any, int])
    seen: int = 0

    async def run(self) -> None:
        initial = self.follow.initial_events
        if not initial:
            self.copy, self.seen = await listed(self.cluster, self.follow)
        loop = asyncio.get_running_loop()
        while loop.time() < HORIZON:
            await self.connect(initial and not self.seen)

    async def connect(self, initial: bool) -> None:
        url = (
            f"{self.follow.path}?{self.follow.selector}&watch=true&allowWatchBookmarks=true"
            f"&timeoutSeconds={HORIZON}"
        )
        if initial:
            self.copy = {}
            url += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        else:
            url += f"&resourceVersion={self.seen}"
        reply = await send(self.cluster, url)
        assert isinstance(reply, StreamReply)
        await asyncio.sleep(0)
        left = self.follow.breaks_after
        complete = not initial
        async for event in decode_events(reply.chunks):
            complete = complete or event["type"] == "BOOKMARK"
            self.take(event, in_order=complete)
            left -= 1
            # An incomplete list has no version to resume from.
            if left <= 0 and complete:
                break
        if not complete:
            self.seen = 0

    def take(self, event: Any, *, in_order: bool) -> None:
        kind, obj = event["type"], event["object"]
        assert kind != "ERROR", obj
        if in_order:
            assert version(obj) >= self.seen, "versions only grow"
            self.seen = version(obj)
        if kind == "BOOKMARK":
            return
        known = self.copy.get(key(obj))
        if kind == "ADDED":
            assert known is None, f"{event} of what is there at {known}"
            self.copy[key(obj)] = version(obj)
        elif kind == "MODIFIED":
            assert known is not None, f"{event} of what is not there"
            self.copy[key(obj)] = version(obj)
        else:
            assert known is not None, f"{event} of what is not there"
            del self.copy[key(obj)]


@settings(deadline=None, max_examples=limit_examples(60))
@given(steps)
def test_watcher_ends_with_the_server_state(history: list[Step]) -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        followers: list[tuple[Watcher, asyncio.Task[None]]] = []
        for number, step in enumerate(history):
            if isinstance(step, StartWatch):
                watcher = Watcher(cluster, step)
                followers.append((watcher, asyncio.create_task(watcher.run())))
            elif isinstance(step, Yield):
                await asyncio.sleep(1)  # virtual, and an integer: sums of others are inexact
            else:
                await take_step(cluster, step, number)
        await asyncio.gather(*(task for _, task in followers))
        for watcher, _ in followers:
            assert watcher.copy == (await listed(cluster, watcher.follow))[0]

    in_virtual_time(scenario)


@settings(deadline=None, max_examples=limit_examples(40))
@given(
    st.lists(writes, max_size=12),
    st.lists(st.lists(writes, max_size=3), min_size=10, max_size=10),
    st.integers(1, 4),
    selectors,
    st.sampled_from([ALL, MAPS]),
)
def test_pages_together_are_the_list_at_the_first_page(
    before: list[Put | Remove],
    between: list[list[Put | Remove]],
    limit: int,
    selector: str,
    path: str,
) -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        for number, step in enumerate(before):
            await take_step(cluster, step, number)
        expected = (await read(cluster, f"{path}?{selector}"))["items"]
        url = f"{path}?{selector}&limit={limit}"
        token, items = "", list[Any]()
        versions: set[str] = set()
        for disturbances in between:
            page = await read(cluster, f"{url}&continue={token}" if token else url)
            items += page["items"]
            versions.add(page["metadata"]["resourceVersion"])
            remaining = page["metadata"].get("remainingItemCount")
            assert remaining in (None, len(expected) - len(items))
            assert len(page["items"]) <= limit
            token = page["metadata"].get("continue", "")
            if not token:
                break
            for number, step in enumerate(disturbances):
                await take_step(cluster, step, 100 + number)
        assert items == expected
        assert len(versions) == 1

    in_virtual_time(scenario)


@settings(deadline=None, max_examples=limit_examples(30))
@given(st.lists(writes, max_size=15), selectors)
def test_every_version_can_be_listed_exactly(history: list[Put | Remove], selector: str) -> None:
    async def scenario(cluster: EmbeddedCluster) -> None:
        snapshots: dict[str, Any] = {}
        for number, step in enumerate(history):
            await take_step(cluster, step, number)
            page = await read(cluster, f"{ALL}?{selector}")
            snapshots[page["metadata"]["resourceVersion"]] = page["items"]
        for at, items in snapshots.items():
            exact = f"{ALL}?{selector}&resourceVersion={at}&resourceVersionMatch=Exact"
            page = await read(cluster, exact)
            assert page["items"] == items
            assert page["metadata"]["resourceVersion"] == at
            paged = await read(cluster, f"{exact}&limit=2")
            assert paged["items"] == items[:2]

    in_virtual_time(scenario)
