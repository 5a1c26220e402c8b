"""Workloads as a feed: joined from their parts while somebody looks, in virtual time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.console.objects import GANGS, PODS, SETS, Pod, PodCliqueSet
from kilonova.console.ownerrows import JOBS, Job
from kilonova.console.troubles import Troubles
from kilonova.console.viewers import Greeting, Viewers
from kilonova.console.workloads import WorkloadFeed, Workloads
from kilonova.kube import Store
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


class Stage:
    """Stores of what workloads are made of, and who looks at them."""

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
            store.synced = True
        self.stores = stores
        self.workloads = Workloads(stores, self.unreadable.__contains__)
        greeting = Greeting("1", "test", False, ["kilonova-scheduler"])
        self.viewers = Viewers(greeting, [WorkloadFeed(self.workloads)], [], Troubles())

    def pod(self, name: str, phase: str = "Running", *, gang: str = "", owned: bool = True) -> None:
        metadata: dict[str, Any] = {"name": name, "namespace": "x", "labels": {}}
        if gang:
            metadata["labels"] = {"grove.io/podgang": gang}
        if owned:
            metadata["ownerReferences"] = [OWNER]
        conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
        status = {"phase": phase, "conditions": conditions}
        body = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}
        self.pods.put(msgspec.convert(body, Pod))

    def job(self, *conditions: str) -> None:
        told = [{"type": each, "status": "True"} for each in conditions]
        metadata = {"name": "j", "namespace": "x"}
        body = {"metadata": metadata, "status": {"conditions": told}}
        self.jobs.put(msgspec.convert(body, Job))

    def gang(self, name: str) -> None:
        metadata = {"name": name, "namespace": "x", "uid": "u", "resourceVersion": "1"}
        self.gangs.put(msgspec.convert({"metadata": metadata, "spec": {"podgroups": []}}, PodGang))


class Look:
    """A page that keeps the table as the stream tells it."""

    def __init__(self, stage: Stage) -> None:
        self._stream: AsyncGenerator[bytes] = stage.viewers.stream()
        self._unread = b""
        self.states: dict[str, str] = {}

    async def until(self, states: dict[str, str]) -> None:
        """Read on until the table is like this."""
        async with asyncio.timeout(30):
            while self.states != states:
                self._unread += await anext(self._stream)
                *events, self._unread = self._unread.split(b"\n\n")
                for event in events:
                    self._take(event.decode())

    async def leave(self) -> None:
        await self._stream.aclose()

    def _take(self, event: str) -> None:
        kind, _, data = event.partition("\ndata: ")
        if kind != "event: rows":
            return
        told = json.loads(data)
        if told.get("reset"):
            self.states = {}
        self.states.update({row["id"]: row["state"] for row in told["put"]})
        for id in told["gone"]:
            self.states.pop(id, None)


async def test_a_change_of_any_part_is_a_change_of_its_workload() -> None:
    stage = Stage()
    stage.pod("a", "Failed")
    look = Look(stage)
    await look.until({"Job/x/j": "Failed"})
    stage.job()
    await look.until({"Job/x/j": "Pending"})
    stage.pod("b")
    await look.until({"Job/x/j": "Running"})
    stage.pod("b", "Succeeded")
    stage.job("Complete")
    await look.until({"Job/x/j": "Completed"})
    stage.jobs.remove(("x", "j"))
    stage.pods.remove(("x", "a"))
    stage.pods.remove(("x", "b"))
    await look.until({})
    await look.leave()


async def test_a_gang_is_a_workload_until_its_pods_are_known() -> None:
    stage = Stage()
    stage.gang("g")
    look = Look(stage)
    await look.until({"PodGang/x/g": "Waiting"})
    stage.pod("a", gang="g", owned=False)
    await look.until({"Pod/x/a": "Partial"})
    stage.pods.remove(("x", "a"))
    await look.until({"PodGang/x/g": "Waiting"})
    stage.gangs.remove(("x", "g"))
    await look.until({})
    await look.leave()


async def test_a_pod_that_is_adopted_changes_workloads() -> None:
    stage = Stage()
    stage.pod("a", owned=False)
    look = Look(stage)
    await look.until({"Pod/x/a": "Running"})
    stage.pod("a")
    await look.until({"Job/x/j": "Running"})
    await look.leave()


async def test_whoever_comes_back_sees_what_changed_while_nobody_looked() -> None:
    stage = Stage()
    for number in range(600):
        stage.pod(f"p{number}", owned=False)
    look = Look(stage)
    await look.until({f"Pod/x/p{number}": "Running" for number in range(600)})
    await look.leave()
    for number in range(1, 600):
        stage.pods.remove(("x", f"p{number}"))
    stage.pod("p0", "Succeeded", owned=False)
    again = Look(stage)
    await again.until({"Pod/x/p0": "Completed"})
    await again.leave()


async def test_who_comes_while_others_are_told_sees_everything() -> None:
    stage = Stage()
    for number in range(600):
        stage.pod(f"p{number}", owned=False)
    first, second = Look(stage), Look(stage)
    wanted = {f"Pod/x/p{number}": "Running" for number in range(600)}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.until(wanted))
        tasks.create_task(second.until(wanted))
    await first.leave()
    stage.pod("p0", "Failed", owned=False)
    await second.until(wanted | {"Pod/x/p0": "Failed"})
    await second.leave()


async def test_parts_that_cannot_be_read_are_not_waited_for() -> None:
    stage = Stage()
    stage.jobs.synced = False
    assert not stage.workloads.synced
    stage.unreadable.add("jobs")
    assert stage.workloads.synced
    for name, store in stage.stores.items():
        store.synced = False
        stage.unreadable.add(name)
    assert not stage.workloads.synced, "where nothing can be read, nothing is known"
