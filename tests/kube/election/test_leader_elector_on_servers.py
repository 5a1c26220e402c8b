"""Elections, events and minimal patches on servers: the embedded one and a genuine
kube-apiserver."""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from kilonova.kube import Client, Conflict, unstructured_resource
from kilonova.kube.client.merge_patch import minimal_merge_patch, needs_patch
from kilonova.kube.election import (
    ApiLeaseStore,
    LeaderElectionTiming,
    LeaderElector,
    Leadership,
    LeadershipLost,
)
from kilonova.kube.election.api_lease import LEASES
from kilonova.kube.events import EventRecorder, ObjectReference
from tests.conftest import Api
from tests.harness.kubectl import Kubectl

SLOW_TIMING = LeaderElectionTiming(lease_duration=120, renew_deadline=100, retry_period=0.2)
"""A server that is late for a while deposes nobody."""
CONFIGMAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)


@pytest.fixture
async def client(api: Api) -> AsyncGenerator[Client]:
    async with api.client() as client:
        yield client


class Replica:
    def __init__(self, api: Api, client: Client, name: str) -> None:
        self.elector = LeaderElector(
            ApiLeaseStore(client, "operator", api.namespace), identity=name, timing=SLOW_TIMING
        )
        self.terms: asyncio.Queue[int] = asyncio.Queue()
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self, leadership: Leadership) -> None:
        self.terms.put_nowait(leadership.token)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def test_leader_leads_hands_over_and_is_deposed(api: Api, client: Client) -> None:
    one = Replica(api, client, "one")
    assert await one.terms.get() == 0
    two = Replica(api, client, "two")
    await asyncio.sleep(1)
    held = await client.get(LEASES, "operator", api.namespace)
    assert held.spec.holder_identity == "one"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", held.spec.renew_time or "")
    await one.stop()
    async with asyncio.timeout(SLOW_TIMING.lease_duration / 2):  # one that expires takes longer
        assert await two.terms.get() == 1
    taken: Any = {"spec": {"holderIdentity": "usurper"}}
    await client.patch(LEASES, "operator", taken, api.namespace)
    with pytest.raises(LeadershipLost, match="usurper holds it"):
        await two.task


async def test_exactly_one_of_many_candidates_wins_each_term(api: Api, client: Client) -> None:
    copies = [Replica(api, client, f"copy-{i}") for i in range(8)]
    for round in range(3):
        first, *_ = await _first_leaders(copies)
        await asyncio.sleep(0.3)
        leaders = [copy for copy in copies if copy.elector.leadership is not None]
        assert leaders == [first]
        assert first.terms.get_nowait() == round
        copies.remove(first)
        await first.stop()
    for copy in copies:
        await copy.stop()


async def _first_leaders(copies: list[Replica]) -> list[Replica]:
    async with asyncio.timeout(20):
        while not (leaders := [copy for copy in copies if copy.elector.leadership]):
            await asyncio.sleep(0.01)
    return leaders


async def test_kubectl_shows_recorded_events(api: Api, client: Client, kubectl: Kubectl) -> None:
    created = await client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, api.namespace)
    about = ObjectReference.to(CONFIGMAPS, "x", api.namespace, created["metadata"]["uid"])
    recorder = EventRecorder(client, "kilonova-test")
    running = asyncio.create_task(recorder.run())
    recorder.event(about, "Noticed", "Something was noticed")
    while not await _events(client, api):
        await asyncio.sleep(0.02)
    recorder.event(about, "Noticed", "Something was noticed")
    recorder.event(about, "Broke", "Something broke", warning=True)
    recorder.stop()
    await running
    noticed, broke = sorted(await _events(client, api), key=lambda e: e["type"])
    assert (noticed["count"], broke["count"]) == (2, 1)

    described = await asyncio.to_thread(kubectl, "describe configmap x", namespace=api.namespace)
    lines = [line.split(None, 2) for line in described.out.splitlines()]
    rows = {line[1]: line[2] for line in lines if line and line[0] in ("Normal", "Warning")}
    assert re.fullmatch(
        r"\d+s \(x2 over \d+s\)\s+kilonova-test\s+Something was noticed", rows["Noticed"]
    )
    assert re.fullmatch(r"\d+s\s+kilonova-test\s+Something broke", rows["Broke"])
    command = "get events --sort-by=.lastTimestamp -o name"
    names = (await asyncio.to_thread(kubectl, command, namespace=api.namespace)).out.split()
    assert len(names) == 2


async def _events(client: Client, api: Api) -> list[Any]:
    events = unstructured_resource("", "v1", "events", "Event", True)
    return (await client.list(events, api.namespace, field_selector="involvedObject.name=x")).items


async def test_minimal_patch_is_satisfied_after_defaulting(api: Api, client: Client) -> None:
    def desired(image: str) -> dict[str, Any]:
        container = {
            "name": "main",
            "image": image,
            "ports": [{"containerPort": 80}],
            "env": [],
            "resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}},
        }
        return {
            "metadata": {"name": "x"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [container], "hostNetwork": False},
                },
            },
        }

    live = await client.create(DEPLOYMENTS, desired("i:1"), api.namespace)
    assert minimal_merge_patch(live, desired("i:1")) is None
    patch = minimal_merge_patch(live, desired("i:2"))
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": live["metadata"]["resourceVersion"]}
    live = await client.patch(DEPLOYMENTS, "x", patch, api.namespace)
    assert not needs_patch(live, desired("i:2"))
    with pytest.raises(Conflict):
        await client.patch(DEPLOYMENTS, "x", patch, api.namespace)
