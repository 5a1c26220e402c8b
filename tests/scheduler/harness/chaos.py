"""A scheduler on a cluster with random faults, in virtual time.

A run depends on its seed only: the actions of users, the answers of the API server, the crashes of
the scheduler.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kilonova.kube import Client, Conflict, ConnectionFailed, Invalid, NotFound, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import NODES, PODS, advance_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_priority_class,
    embedded_cluster,
    fleet,
    gang,
    pod,
)
from tests.scheduler.harness.fault_injection import (
    assert_no_double_allocation,
    killed_scheduler,
    set_slow_termination,
    transport_of,
)
from tests.workloads.crashing_operator import is_write

GPUS = 4
"""GPUs of each node."""
SETTINGS = SchedulerSettings(
    eviction_timeout=20,
    partial_gang_timeout=30,
    retry_interval=5,
    policy=PlannerPolicy(reserve_after=1e9),
)
_ERROR_CODES = (400, 403, 409, 422, 429, 500, 503)


@dataclass
class FaultPlan:
    """How often writes fail; some failures crash the scheduler."""

    chance: random.Random
    faults: float
    crashes: float = 0.25
    """The part of the faults that crash the scheduler."""


class FaultyTransport(Transport):
    """A transport on which writes fail in all ways."""

    def __init__(self, inner: Transport, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan
        self._chance = plan.chance
        self.crashed = asyncio.Event()

    async def send(self, request: Request) -> Reply:
        if self.crashed.is_set():
            await asyncio.Event().wait()
        if self._chance.random() >= self._plan.faults * (1.0 if is_write(request) else 0.1):
            return await self._inner.send(request)
        return await self._fail(request)

    async def _fail(self, request: Request) -> Reply:
        match self._chance.choice(("lost", "unanswered", "refused", "late", "slow", "dies")):
            case "lost":
                raise ConnectionFailed("cut off")
            case "unanswered":
                await self._inner.send(request)
                raise ConnectionFailed("cut off after it was sent")
            case "late":
                await self._inner.send(request)
                return _status(504)
            case "slow":
                await asyncio.sleep(self._chance.uniform(0.1, 15.0))
                return await self._inner.send(request)
            case "dies" if is_write(request) and self._chance.random() < self._plan.crashes:
                if self._chance.random() < 0.5:
                    await self._inner.send(request)
                self.crashed.set()
                await asyncio.Event().wait()
                raise AssertionError("waits forever")
            case _:
                return _status(self._chance.choice(_ERROR_CODES))

    def stream(self, request: Request) -> Any:
        if self._chance.random() < self._plan.faults * 0.1:
            raise ConnectionFailed("cut off")
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def _status(code: int) -> Reply:
    return Reply(code, b'{"kind":"Status","code":%d,"message":"injected"}' % code, {})


class RandomUser:
    """Random actions of users and nodes."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self._made = 0
        self._finalized: list[str] = []
        self._added: list[str] = []
        self._single_pods: list[str] = []

    async def act(self) -> None:
        """One random action."""
        doing = self._chance.choices(
            (
                self._create_pod,
                self._create_gang,
                self._delete_pod,
                self._adopt,
                self._delete_gang,
                self._add_finalizer,
                self._remove_finalizers,
                self._add_node,
                self._remove_node,
                self._cordon,
                self._relabel,
            ),
            (6, 4, 2, 3, 2, 5, 2, 2, 1, 1, 1),
        )[0]
        try:
            await doing()
        except (NotFound, Conflict, Invalid):
            return  # its object was deleted

    async def settle(self) -> None:
        """End all faults, and let terminating pods go."""
        for name in list(self._finalized):
            try:
                await set_slow_termination(self._client, name, slow=False)
            except NotFound:
                continue
        for each in (await self._client.list(NODES)).items:
            await self._client.patch(
                NODES, each["metadata"]["name"], {"spec": {"unschedulable": None}}
            )

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    def _spec(self) -> dict[str, Any]:
        return {"priorityClassName": "high"} if self._chance.random() < 0.5 else {}

    async def _create_pod(self) -> None:
        name = self._name("pod")
        self._single_pods.append(name)
        await self._client.create(
            PODS, pod(name, self._chance.randint(1, GPUS), **self._spec()), "default"
        )

    async def _create_gang(self) -> None:
        name, size = self._name("gang"), self._chance.randint(2, 4)
        pods = [f"{name}-{index}" for index in range(size)]
        spec, gpus = self._spec(), self._chance.randint(1, GPUS)
        body = gang(name, {"w": pods})
        body["spec"]["podgroups"][0]["minReplicas"] = self._chance.randint(1, size)
        if self._chance.random() < 0.5:
            await self._client.create(GANGS, body, "default")
            body = None
        for each in pods:
            await self._client.create(PODS, pod(each, gpus, gang=name, **spec), "default")
        if body is not None:
            await self._client.create(GANGS, body, "default")

    async def _delete_pod(self) -> None:
        await self._client.delete(
            PODS, self._chance.choice(self._single_pods or ["none"]), "default"
        )

    async def _adopt(self) -> None:
        """A PodGang lists pods that may be pending or bound already, preferably those that wait for
        victims."""
        pods = (await self._client.list(PODS, "default")).items
        promised = [
            each["metadata"]["name"]
            for each in pods
            if each.get("status", {}).get("nominatedNodeName")
        ]
        listed = {
            name
            for each in (await self._client.list(GANGS, "default")).items
            for name in _pod_names_of(each)
        }
        free = [
            name for name in self._single_pods if name not in listed
        ]  # a pod belongs to one gang
        candidates = [name for name in promised if name in free] or free
        if candidates:
            name = self._name("late")
            body = gang(name, {"w": self._chance.sample(candidates, min(len(candidates), 2))})
            await self._client.create(GANGS, body, "default")

    async def _delete_gang(self) -> None:
        gangs = [
            each["metadata"]["name"]
            for each in (await self._client.list(GANGS, "default")).items
            if each["metadata"]["name"].startswith("late")
        ]
        if gangs:
            await self._client.delete(GANGS, self._chance.choice(gangs), "default")

    async def _add_finalizer(self) -> None:
        """Some pods terminate slowly when they are evicted."""
        pods = (await self._client.list(PODS, "default")).items
        bound = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
        if bound:
            name = self._chance.choice(bound)
            await set_slow_termination(self._client, name)
            self._finalized.append(name)

    async def _remove_finalizers(self) -> None:
        if self._finalized:
            name = self._finalized.pop(self._chance.randrange(len(self._finalized)))
            await set_slow_termination(self._client, name, slow=False)

    async def _add_node(self) -> None:
        if len(self._added) < 3:
            name = self._name("new")
            await add_node(self._client, name)
            self._added.append(name)

    async def _remove_node(self) -> None:
        if self._added:
            name = self._added.pop(self._chance.randrange(len(self._added)))
            await self._client.delete(NODES, name)

    async def _cordon(self) -> None:
        nodes = (await self._client.list(NODES)).items
        node = self._chance.choice(nodes)["metadata"]["name"]
        flag = self._chance.random() < 0.5 or None
        await self._client.patch(NODES, node, {"spec": {"unschedulable": flag}})

    async def _relabel(self) -> None:
        name = self._chance.choice(self._single_pods or ["none"])
        labels = {"app": self._chance.choice("ab")}
        await self._client.patch(PODS, name, {"metadata": {"labels": labels}}, "default")


async def add_node(client: Client, name: str, like: str = "node-0") -> None:
    """Add a node without a kubelet: its pods are deleted by force, or with the node."""
    found: dict[str, Any] = await client.get(NODES, like)
    labels = {**found["metadata"]["labels"], "kubernetes.io/hostname": name}
    status = {key: found["status"][key] for key in ("allocatable", "capacity", "conditions")}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
    await client.patch(NODES, name, {"status": status}, subresource="status")


async def run(seed: int, *, seconds: float = 120.0, faults: float = 0.15) -> None:
    """One run: faults for a while, then none, and the invariants."""
    chance = random.Random(seed)
    async with embedded_cluster(fleet(2, gpus=GPUS)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        chaos = RandomUser(client, chance)
        fault_plan = FaultPlan(chance, faults)
        lives = asyncio.create_task(_run_schedulers_until_crash(cluster, fault_plan))
        try:
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            while loop.time() < end:
                await chaos.act()
                await advance_time(chance.choice((0.05, 0.5, 2.0, 5.0, 15.0)))
                await assert_no_double_allocation(client)
            fault_plan.faults = 0.0  # the current scheduler continues
            await chaos.settle()
            for _ in range(6):
                await advance_time(50)
                await assert_no_double_allocation(client)
            await assert_all_schedulable_pods_bound(client)
            await assert_no_capacity_leaked(client)
        finally:
            lives.cancel()
            await asyncio.wait({lives})


async def _run_schedulers_until_crash(cluster: EmbeddedCluster, plan: FaultPlan) -> None:
    """Run schedulers, one after the other."""
    while True:
        way = FaultyTransport(transport_of(cluster), plan)
        async with killed_scheduler(way, SETTINGS):
            await way.crashed.wait()
        await advance_time(plan.chance.uniform(0.0, 5.0))


async def assert_all_schedulable_pods_bound(client: Client) -> None:
    """Every feasible pod is bound, every pending pod has a reason, and no gang is partial."""
    pods = {each["metadata"]["name"]: each for each in (await client.list(PODS, "default")).items}
    gangs = (await client.list(GANGS, "default")).items
    free = await _free_gpus(client, pods.values())
    listed = {name for each in gangs for name in _pod_names_of(each)}
    for name, each in pods.items():
        if (
            _is_pending(each)
            and name not in listed
            and _GANG_LABEL not in each["metadata"].get("labels", {})
        ):
            assert _message(each), f"{name} is pending without a message"
            assert _slots(free, _gpu_request(each)) == 0, f"{name} fits: {free}"
    for each in gangs:
        _check_gang(each, pods, free)


async def assert_no_capacity_leaked(client: Client) -> None:
    """Free capacity can be allocated."""
    free = await _free_gpus(client, (await client.list(PODS, "default")).items)
    names = [f"filler-{index}" for index in range(sum(free.values()))]
    for name in names:
        await client.create(PODS, pod(name, 1, priorityClassName="high"), "default")
    await wait_for_condition(are_all_placed(client, names), within=120)
    await assert_no_double_allocation(client)


_GANG_LABEL = "grove.io/podgang"


def _check_gang(each: dict[str, Any], pods: dict[str, Any], free: Counter[str]) -> None:
    name = each["metadata"]["name"]
    existing = [
        pods[pod] for pod in _pod_names_of(each) if pod in pods and not _is_terminating(pods[pod])
    ]
    least = each["spec"]["podgroups"][0]["minReplicas"]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in existing)
    pending = [pod for pod in existing if _is_pending(pod)]
    if len(existing) < len(list(_pod_names_of(each))):
        return  # it lost pods, is losing them, or has none
    assert bound == 0 or bound >= least, f"{name} is partially bound: {bound} of {least}"
    for each_pod in pending:
        assert _message(each_pod), f"{each_pod['metadata']['name']} is pending without a message"
    if pending:
        needed = max(1, least - bound)
        slots = _slots(free, max(map(_gpu_request, pending)))
        assert slots < needed, f"{name} fits: {needed} of {slots} in {free}"


def _pod_names_of(each: dict[str, Any]) -> Iterator[str]:
    for group in each["spec"]["podgroups"]:
        yield from (ref["name"] for ref in group["podReferences"])


def _is_terminating(each: dict[str, Any]) -> bool:
    return "deletionTimestamp" in each["metadata"]


def _is_pending(each: dict[str, Any]) -> bool:
    return not each["spec"].get("nodeName") and not _is_terminating(each)


def _gpu_request(each: dict[str, Any]) -> int:
    return int(each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def _message(each: dict[str, Any]) -> str:
    conditions = each.get("status", {}).get("conditions", [])
    found = (one for one in conditions if one["type"] == "PodScheduled")
    return next((one.get("message", "") for one in found), "")


def _slots(free: Counter[str], gpus: int) -> int:
    return sum(amount // gpus for amount in free.values())


async def _free_gpus(client: Client, pods: Any) -> Counter[str]:
    """Free GPUs by schedulable node."""
    free: Counter[str] = Counter()
    for node in (await client.list(NODES)).items:
        taints = [each for each in node["spec"].get("taints", []) if "No" in each["effect"]]
        if not taints and not node["spec"].get("unschedulable"):
            free[node["metadata"]["name"]] = int(node["status"]["allocatable"]["nvidia.com/gpu"])
    for each in pods:
        node, phase = each["spec"].get("nodeName"), each.get("status", {}).get("phase")
        if node in free and phase not in ("Succeeded", "Failed"):
            free[node] -= _gpu_request(each)
    return Counter({node: amount for node, amount in free.items() if amount > 0})
