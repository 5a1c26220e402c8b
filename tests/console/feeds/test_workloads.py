"""The feed of workloads, joined from their parts while there are viewers; in virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.console.feeds.table_errors import TableErrors
from kilonova.console.feeds.viewers import ServerInfo, Viewers
from kilonova.console.feeds.workloads import WorkloadFeed, WorkloadIndex
from kilonova.console.objects import GANGS, JOBS, PODS, SETS, Job, Pod, PodCliqueSet
from kilonova.kube import Store
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


class WorkloadFixture:
    """Stores of workloads' parts, and their viewers."""

    def __init__(self) -> None:
        self.pods: Store[Pod] = Store(PODS.type)
        self.gangs: Store[PodGang] = Store(GANGS.type)
        self.sets: Store[PodCliqueSet] = Store(SETS.type)
        self.jobs: Store[Job] = Store(JOBS.type)
        self.unreadable: set[str] = set()
        stores: dict[str, Store[Any]] = {
            "pods": self.pods,
            "gangs": self.gangs,
            "sets": self.sets,
            "jobs": self.jobs,
        }
        for store in stores.values():
            store.has_synced = True
        self.stores = stores
        self.workloads = WorkloadIndex(stores, self.unreadable.__contains__)
        server_info = ServerInfo("1", "test", False, ["kilonova-scheduler"])
        self.viewers = Viewers(server_info, [WorkloadFeed(self.workloads)], [], TableErrors())

    def pod(
        self,
        name: str,
        phase: str = "Running",
        *,
        gang: str = "",
        owned: bool = True,
        labels: dict[str, str] | None = None,
    ) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": "x", "labels": labels or {}}
        if gang:
            metadata["labels"] = {**metadata["labels"], "grove.io/podgang": gang}
        if owned:
            metadata["ownerReferences"] = [OWNER]
        conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
        status = {"phase": phase, "conditions": conditions}
        body = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}
        self.pods.put(msgspec.convert(body, Pod))

    def job(self, *conditions: str) -> None:
        status = [{"type": each, "status": "True"} for each in conditions]
        metadata = {"name": "j", "namespace": "x"}
        body = {"metadata": metadata, "status": {"conditions": status}}
        self.jobs.put(msgspec.convert(body, Job))

    def set(self, name: str, labels: dict[str, str]) -> None:
        metadata = {"name": name, "namespace": "x", "labels": labels}
        template = {"cliques": [{"name": "w", "spec": {"roleName": "w", "replicas": 1}}]}
        body = {"metadata": metadata, "spec": {"replicas": 1, "template": template}}
        self.sets.put(msgspec.convert(body, PodCliqueSet))

    def gang(self, name: str, labels: dict[str, str] | None = None) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": "x", "uid": "u"}
        metadata["resourceVersion"] = "1"
        metadata["labels"] = labels or {}
        self.gangs.put(msgspec.convert({"metadata": metadata, "spec": {"podgroups": []}}, PodGang))


class WorkloadViewer:
    """A viewer that applies the stream to its table."""

    def __init__(self, fixture: WorkloadFixture) -> None:
        self._stream: AsyncGenerator[bytes] = fixture.viewers.stream()
        self._buffer = b""
        self.states: dict[str, str] = {}

    async def wait_for_states(self, states: dict[str, str]) -> None:
        """Read until the table has these states."""
        async with asyncio.timeout(30):
            while self.states != states:
                self._buffer += await anext(self._stream)
                *events, self._buffer = self._buffer.split(b"\n\n")
                for event in events:
                    self._handle_event(event.decode())

    async def close(self) -> None:
        await self._stream.aclose()

    def _handle_event(self, event: str) -> None:
        kind, _, data = event.partition("\ndata: ")
        if kind != "event: rows":
            return
        change = json.loads(data)
        if change.get("reset"):
            self.states = {}
        self.states.update({row["id"]: row["state"] for row in change["upserted"]})
        for id in change["deleted"]:
            self.states.pop(id, None)


async def test_change_of_any_part_changes_its_workload() -> None:
    fixture = WorkloadFixture()
    fixture.pod("a", "Failed")
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({"Job/x/j": "Failed"})
    fixture.job()
    await viewer.wait_for_states({"Job/x/j": "Creating"})
    fixture.pod("b")
    await viewer.wait_for_states({"Job/x/j": "Running"})
    fixture.pod("b", "Succeeded")
    fixture.job("Complete")
    await viewer.wait_for_states({"Job/x/j": "Completed"})
    fixture.jobs.remove(("x", "j"))
    fixture.pods.remove(("x", "a"))
    fixture.pods.remove(("x", "b"))
    await viewer.wait_for_states({})
    await viewer.close()


async def test_gang_is_a_workload_until_its_pods_exist() -> None:
    fixture = WorkloadFixture()
    fixture.gang("g")
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({"PodGang/x/g": "Pending"})
    fixture.pod("a", gang="g", owned=False)
    await viewer.wait_for_states({"Pod/x/a": "Partial"})
    fixture.pods.remove(("x", "a"))
    await viewer.wait_for_states({"PodGang/x/g": "Pending"})
    fixture.gangs.remove(("x", "g"))
    await viewer.wait_for_states({})
    await viewer.close()


async def test_set_of_another_workload_is_part_of_it() -> None:
    fixture = WorkloadFixture()
    named = {"kilonova.dev/workload": "Chat.example.com_c"}
    made = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "s"}
    fixture.set("s", named)
    fixture.pod("a", gang="s-0", owned=False, labels={**made, **named})
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({"Chat.example.com/x/c": "Running"})
    fixture.gang("s-0", {**made, **named})
    await viewer.wait_for_states({"Chat.example.com/x/c": "Partial"})
    fixture.set("s", {})
    fixture.pod("a", gang="s-0", owned=False, labels=made)
    await viewer.wait_for_states({"PodCliqueSet/x/s": "Partial"})
    await viewer.close()


async def test_workload_exists_by_a_set_that_names_it() -> None:
    fixture = WorkloadFixture()
    named = {"kilonova.dev/workload": "Chat.example.com_c"}
    made = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "s"}
    fixture.set("s", named)
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({"Chat.example.com/x/c": "Creating"})
    fixture.gang("s-0", made)
    await viewer.wait_for_states({"Chat.example.com/x/c": "Pending"})
    fixture.gangs.remove(("x", "s-0"))
    await viewer.wait_for_states({"Chat.example.com/x/c": "Creating"})
    fixture.set("s", {})
    await viewer.wait_for_states({"PodCliqueSet/x/s": "Creating"})
    fixture.set("s", named)
    await viewer.wait_for_states({"Chat.example.com/x/c": "Creating"})
    fixture.sets.remove(("x", "s"))
    await viewer.wait_for_states({})
    await viewer.close()


async def test_adopted_pod_changes_its_workload() -> None:
    fixture = WorkloadFixture()
    fixture.pod("a", owned=False)
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({"Pod/x/a": "Running"})
    fixture.pod("a")
    await viewer.wait_for_states({"Job/x/j": "Running"})
    await viewer.close()


async def test_returning_viewer_sees_changes_made_meanwhile() -> None:
    fixture = WorkloadFixture()
    for number in range(600):
        fixture.pod(f"p{number}", owned=False)
    viewer = WorkloadViewer(fixture)
    await viewer.wait_for_states({f"Pod/x/p{number}": "Running" for number in range(600)})
    await viewer.close()
    for number in range(1, 600):
        fixture.pods.remove(("x", f"p{number}"))
    fixture.pod("p0", "Succeeded", owned=False)
    returning = WorkloadViewer(fixture)
    await returning.wait_for_states({"Pod/x/p0": "Completed"})
    await returning.close()


async def test_viewer_joining_during_changes_sees_everything() -> None:
    fixture = WorkloadFixture()
    for number in range(600):
        fixture.pod(f"p{number}", owned=False)
    first, second = WorkloadViewer(fixture), WorkloadViewer(fixture)
    expected = {f"Pod/x/p{number}": "Running" for number in range(600)}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.wait_for_states(expected))
        tasks.create_task(second.wait_for_states(expected))
    await first.close()
    fixture.pod("p0", "Failed", owned=False)
    await second.wait_for_states(expected | {"Pod/x/p0": "Failed"})
    await second.close()


async def test_forbidden_tables_do_not_block_the_feed() -> None:
    fixture = WorkloadFixture()
    fixture.jobs.has_synced = False
    assert not fixture.workloads.has_synced
    fixture.unreadable.add("jobs")
    assert fixture.workloads.has_synced
    for name, store in fixture.stores.items():
        store.has_synced = False
        fixture.unreadable.add(name)
    assert not fixture.workloads.has_synced, "not synced if no table can be read"
