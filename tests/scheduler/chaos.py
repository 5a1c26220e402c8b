"""A scheduler on a cluster where everything that can go wrong does, in virtual time.

A run is made of a seed alone: what users do, what the API server answers, when the scheduler dies.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kilonova.kube import Client, Conflict, ConnectionFailed, Invalid, NotFound, Transport
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import NODES, PODS, eventually, settle
from tests.scheduler.faults import abandoned_scheduler, assert_nothing_twice, hold, transport_of
from tests.scheduler.scheduling import GANGS, a_cluster, all_placed, fleet, gang, make_priority, pod
from tests.workloads.mortal import is_write

GPUS = 4
"""That each node has."""
SETTINGS = Settings(patience=20, half_after=30, retry=5, policy=Policy(reserve_after=1e9))
_REFUSALS = (400, 403, 409, 422, 429, 500, 503)


@dataclass
class Trouble:
    """How often writes fail now; schedulers die of some of it."""

    chance: random.Random
    faults: float
    deaths: float = 0.25
    """Of those faults that could be a death."""


class Faulty(Transport):
    """A way to the API server on which writes fail in all ways."""

    def __init__(self, inner: Transport, trouble: Trouble) -> None:
        self._inner = inner
        self._trouble = trouble
        self._chance = trouble.chance
        self.died = asyncio.Event()

    async def send(self, request: Request) -> Reply:
        if self.died.is_set():
            await asyncio.Event().wait()
        if self._chance.random() >= self._trouble.faults * (1.0 if is_write(request) else 0.1):
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
            case "dies" if is_write(request) and self._chance.random() < self._trouble.deaths:
                if self._chance.random() < 0.5:
                    await self._inner.send(request)
                self.died.set()
                await asyncio.Event().wait()
                raise AssertionError("it waits for ever")
            case _:
                return _status(self._chance.choice(_REFUSALS))

    def stream(self, request: Request) -> Any:
        if self._chance.random() < self._trouble.faults * 0.1:
            raise ConnectionFailed("cut off")
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def _status(code: int) -> Reply:
    return Reply(code, b'{"kind":"Status","code":%d,"message":"injected"}' % code, {})


class Chaos:
    """What users and nodes do."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self._made = 0
        self._held: list[str] = []
        self._added: list[str] = []
        self._lone: list[str] = []

    async def act(self) -> None:
        """Something happens."""
        doing = self._chance.choices(
            (
                self._create_pod,
                self._create_gang,
                self._delete_pod,
                self._adopt,
                self._disown,
                self._hold,
                self._release,
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
            return  # what it was about is gone

    async def calm(self) -> None:
        """Nothing goes wrong any more, and nobody is held."""
        for name in list(self._held):
            try:
                await hold(self._client, name, held=False)
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
        self._lone.append(name)
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
            await self._client.create(PODS, pod(each, gpus, of=name, **spec), "default")
        if body is not None:
            await self._client.create(GANGS, body, "default")

    async def _delete_pod(self) -> None:
        await self._client.delete(PODS, self._chance.choice(self._lone or ["none"]), "default")

    async def _adopt(self) -> None:
        """A PodGang names pods that may wait or be bound already, best those that wait for others
        to go."""
        pods = (await self._client.list(PODS, "default")).items
        promised = [
            each["metadata"]["name"]
            for each in pods
            if each.get("status", {}).get("nominatedNodeName")
        ]
        listed = {
            name
            for each in (await self._client.list(GANGS, "default")).items
            for name in _listed(each)
        }
        free = [name for name in self._lone if name not in listed]  # a pod is of one gang
        lone = [name for name in promised if name in free] or free
        if lone:
            name = self._name("late")
            body = gang(name, {"w": self._chance.sample(lone, min(len(lone), 2))})
            await self._client.create(GANGS, body, "default")

    async def _disown(self) -> None:
        gangs = [
            each["metadata"]["name"]
            for each in (await self._client.list(GANGS, "default")).items
            if each["metadata"]["name"].startswith("late")
        ]
        if gangs:
            await self._client.delete(GANGS, self._chance.choice(gangs), "default")

    async def _hold(self) -> None:
        """Some take long to go when they are evicted."""
        pods = (await self._client.list(PODS, "default")).items
        bound = [each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")]
        if bound:
            name = self._chance.choice(bound)
            await hold(self._client, name)
            self._held.append(name)

    async def _release(self) -> None:
        if self._held:
            name = self._held.pop(self._chance.randrange(len(self._held)))
            await hold(self._client, name, held=False)

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
        name = self._chance.choice(self._lone or ["none"])
        labels = {"app": self._chance.choice("ab")}
        await self._client.patch(PODS, name, {"metadata": {"labels": labels}}, "default")


async def add_node(client: Client, name: str, like: str = "node-0") -> None:
    """A node as another is, without a kubelet: pods there are gone when they are deleted by force,
    or with their node."""
    found: dict[str, Any] = await client.get(NODES, like)
    labels = {**found["metadata"]["labels"], "kubernetes.io/hostname": name}
    status = {key: found["status"][key] for key in ("allocatable", "capacity", "conditions")}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
    await client.patch(NODES, name, {"status": status}, subresource="status")


async def run(seed: int, *, seconds: float = 120.0, faults: float = 0.15) -> None:
    """One run: trouble for a while, then peace, and what must hold of it all."""
    chance = random.Random(seed)
    async with a_cluster(fleet(2, gpus=GPUS)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        chaos = Chaos(client, chance)
        trouble = Trouble(chance, faults)
        lives = asyncio.create_task(_live_and_die(cluster, trouble))
        try:
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            while loop.time() < end:
                await chaos.act()
                await settle(chance.choice((0.05, 0.5, 2.0, 5.0, 15.0)))
                await assert_nothing_twice(client)
            trouble.faults = 0.0  # the scheduler that lives now goes on
            await chaos.calm()
            for _ in range(6):
                await settle(50)
                await assert_nothing_twice(client)
            await assert_nobody_is_forgotten(client)
            await assert_nothing_is_withheld(client)
        finally:
            lives.cancel()
            await asyncio.wait({lives})


async def _live_and_die(cluster: Cluster, trouble: Trouble) -> None:
    """Schedulers, one after the other."""
    while True:
        way = Faulty(transport_of(cluster), trouble)
        async with abandoned_scheduler(way, SETTINGS):
            await way.died.wait()
        await settle(trouble.chance.uniform(0.0, 5.0))


async def assert_nobody_is_forgotten(client: Client) -> None:
    """Who fits is bound, who waits says why, and no gang has only some of what it needs."""
    pods = {each["metadata"]["name"]: each for each in (await client.list(PODS, "default")).items}
    gangs = (await client.list(GANGS, "default")).items
    free = await _free(client, pods.values())
    listed = {name for each in gangs for name in _listed(each)}
    for name, each in pods.items():
        if _waits(each) and name not in listed and _OF not in each["metadata"].get("labels", {}):
            assert _message(each), f"{name} waits without a word"
            assert _slots(free, _gpus(each)) == 0, f"{name} fits: {free}"
    for each in gangs:
        _check_gang(each, pods, free)


async def assert_nothing_is_withheld(client: Client) -> None:
    """What nobody uses can be had."""
    free = await _free(client, (await client.list(PODS, "default")).items)
    names = [f"filler-{index}" for index in range(sum(free.values()))]
    for name in names:
        await client.create(PODS, pod(name, 1, priorityClassName="high"), "default")
    await eventually(all_placed(client, names), within=120)
    await assert_nothing_twice(client)


_OF = "grove.io/podgang"


def _check_gang(each: dict[str, Any], pods: dict[str, Any], free: Counter[str]) -> None:
    name = each["metadata"]["name"]
    there = [pods[pod] for pod in _listed(each) if pod in pods and not _terminates(pods[pod])]
    least = each["spec"]["podgroups"][0]["minReplicas"]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in there)
    waiting = [pod for pod in there if _waits(pod)]
    if len(there) < len(list(_listed(each))):
        return  # it lost some, is losing them, or has not got them
    assert bound == 0 or bound >= least, f"{name} is half bound: {bound} of {least}"
    for one in waiting:
        assert _message(one), f"{one['metadata']['name']} waits without a word"
    if waiting:
        needed = max(1, least - bound)
        slots = _slots(free, max(map(_gpus, waiting)))
        assert slots < needed, f"{name} fits: {needed} of {slots} in {free}"


def _listed(each: dict[str, Any]) -> Iterator[str]:
    for group in each["spec"]["podgroups"]:
        yield from (ref["name"] for ref in group["podReferences"])


def _terminates(each: dict[str, Any]) -> bool:
    return "deletionTimestamp" in each["metadata"]


def _waits(each: dict[str, Any]) -> bool:
    return not each["spec"].get("nodeName") and not _terminates(each)


def _gpus(each: dict[str, Any]) -> int:
    return int(each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def _message(each: dict[str, Any]) -> str:
    conditions = each.get("status", {}).get("conditions", [])
    found = (one for one in conditions if one["type"] == "PodScheduled")
    return next((one.get("message", "") for one in found), "")


def _slots(free: Counter[str], gpus: int) -> int:
    return sum(amount // gpus for amount in free.values())


async def _free(client: Client, pods: Any) -> Counter[str]:
    """GPUs that nobody uses, by node on which pods may be placed."""
    free: Counter[str] = Counter()
    for node in (await client.list(NODES)).items:
        taints = [each for each in node["spec"].get("taints", []) if "No" in each["effect"]]
        if not taints and not node["spec"].get("unschedulable"):
            free[node["metadata"]["name"]] = int(node["status"]["allocatable"]["nvidia.com/gpu"])
    for each in pods:
        node, phase = each["spec"].get("nodeName"), each.get("status", {}).get("phase")
        if node in free and phase not in ("Succeeded", "Failed"):
            free[node] -= _gpus(each)
    return Counter({node: amount for node, amount in free.items() if amount > 0})
