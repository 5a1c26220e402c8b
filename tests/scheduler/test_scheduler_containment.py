"""An unexpected error about one object costs that object its turn, and nobody else anything."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.metrics import Metrics
from kilonova.scheduler import rounds
from kilonova.scheduler.avoidance import Avoidance
from kilonova.scheduler.binding import Binder
from kilonova.scheduler.core import plan
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.volumepromises import VolumePromises
from kilonova.scheduler.world import World
from tests.local.embedded_cluster import NODES, PODS, eventually, settle, virtual_time
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    nodes_of,
    pod,
    scheduler_on,
)

pytestmark = virtual_time

POISON = "default/poison"


class Fault:
    """Makes a function fail for the gang `poison`, until it is repaired."""

    def __init__(self, name_of: Callable[..., str]) -> None:
        self.active = True
        self._name_of = name_of

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **named: Any) -> Any:
            if self.active and self._name_of(*args) == POISON:
                raise ArithmeticError("operands could not be broadcast")
            return function(*args, **named)

        return failing


def break_decisions(patch: pytest.MonkeyPatch) -> Fault:
    fault = Fault(lambda _, gang, *__: gang.name)
    patch.setattr(Placer, "place", fault.around(Placer.place))
    return fault


def break_cycles(patch: pytest.MonkeyPatch) -> Fault:
    fault = Fault(lambda gang: gang.name)
    patch.setattr(plan, "asked", fault.around(plan.asked))
    return fault


def break_reading(patch: pytest.MonkeyPatch) -> Fault:
    fault = Fault(lambda _, gang: gang.name)
    patch.setattr(Avoidance, "mindful", fault.around(Avoidance.mindful))
    return fault


def failed(client: Client, gang: str) -> Callable[[], Awaitable[bool]]:
    """Whether a gang says that the scheduler failed to decide about it."""

    async def holds() -> bool:
        found = await client.get(GANGS, gang, "default")
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["reason"] == "SchedulerError" for each in conditions)

    return holds


@pytest.mark.parametrize("breaking", [break_decisions, break_cycles, break_reading])
async def test_a_gang_that_cannot_be_decided_about_holds_up_no_other(
    breaking: Callable[[pytest.MonkeyPatch], Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, metrics = breaking(monkeypatch), Metrics()
    async with a_cluster(fleet(2)) as cluster, scheduler_on(cluster, instruments=metrics) as ours:
        client = cluster.client("tester")
        poisoned = await create_gang(client, "poison", 2, gpus=1)
        healthy = await create_gang(client, "healthy", 2, gpus=1)
        await eventually(all_placed(client, healthy))
        await eventually(failed(client, "poison"))
        (condition,) = (await client.get(GANGS, "poison", "default"))["status"]["conditions"]
        assert "ArithmeticError: operands could not be broadcast" in condition["message"]
        nodes = await nodes_of(client)
        assert [nodes[name] for name in poisoned] == ["", ""]
        errors = [
            sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "kilonova_scheduler_errors_total"
        ]
        assert sum(errors) > 0
        assert ours.world.cluster.snapshot.bookings.keys() == {f"default/{n}" for n in healthy}
        fault.active = False
        ours.world.touch(POISON)
        await eventually(all_placed(client, poisoned))


async def test_a_gang_whose_decision_failed_is_tried_again_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = break_decisions(monkeypatch)
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster):
        client = cluster.client("tester")
        names = await create_gang(client, "poison", 2, gpus=1)
        await eventually(failed(client, "poison"))
        fault.active = False
        await eventually(all_placed(client, names))


async def test_a_gang_whose_binding_fails_gives_its_capacity_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault(lambda _, bookings: bookings[0].gang)
    monkeypatch.setattr(VolumePromises, "write", fault.around(VolumePromises.write))
    metrics = Metrics()
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster, instruments=metrics):
        client = cluster.client("tester")
        poisoned = await create_gang(client, "poison", 2, gpus=4)

        async def contained() -> bool:
            labels = {"part": "binding"}
            name = "kilonova_scheduler_errors_total"
            return bool(metrics.registry.get_sample_value(name, labels))

        await eventually(contained)
        healthy = await create_gang(client, "healthy", 2, gpus=4)
        await eventually(all_placed(client, healthy))
        fault.active = False
        for name in healthy:
            await client.delete(PODS, name, "default")
        await eventually(all_placed(client, poisoned))


async def test_a_pod_that_breaks_the_cache_excludes_its_node_only() -> None:
    async with a_cluster(fleet(2, gpus=2)) as cluster, scheduler_on(cluster) as ours:
        client = cluster.client("tester")

        def fail(_: Pod | None, new: Pod | None) -> None:
            if new is not None and new.metadata.name == "bad" and new.spec.node_name:
                raise ArithmeticError("not to be counted")

        ours.caches.pods.store.subscribe(fail)
        await client.create(PODS, pod("bad", 1), "default")
        await eventually(all_placed(client, ["bad"]))
        bad = (await nodes_of(client))["bad"]

        async def excluded() -> bool:
            return bad not in ours.world.cluster.snapshot

        await eventually(excluded)
        await client.create(PODS, pod("good", 1), "default")
        await eventually(all_placed(client, ["good"]))
        assert (await nodes_of(client))["good"] != bad


async def test_a_failed_turn_leaves_the_cluster_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_after_booking(self: plan.Round, gang: Gang, bookings: object) -> object:
        raise ArithmeticError("late")

    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster) as ours:
        client = cluster.client("tester")
        with monkeypatch.context() as patch:
            patch.setattr(plan.Round, "_within_limits", fail_after_booking)
            names = await create_gang(client, "late", 2, gpus=4)
            await eventually(failed(client, "late"))
            assert not ours.world.cluster.snapshot.bookings
            assert not ours.world.cluster.standing
        await eventually(all_placed(client, names))


async def test_a_node_comes_back_only_with_all_pods_that_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = Fault(lambda _, pod: pod.key)
    monkeypatch.setattr(World, "_count_in", fault.around(World._count_in))  # pyright: ignore[reportPrivateUsage]  # it is broken
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster) as ours:
        client = cluster.client("tester")
        for name, gpus in (("before", 2), ("poison", 4), ("zoe", 2)):
            await client.create(PODS, pod(name, gpus, nodeName="node-0"), "default")
        await settle()
        await client.create(PODS, pod("next", 2), "default")
        for beat in ("1", "2"):
            await client.patch(NODES, "node-0", {"metadata": {"annotations": {"beat": beat}}})
            await settle()
            assert "node-0" not in ours.world.cluster.snapshot
        assert (await nodes_of(client))["next"] == ""
        fault.active = False
        await client.patch(NODES, "node-0", {"metadata": {"annotations": {"beat": "3"}}})
        await settle()
        assert len(ours.world.cluster.snapshot.bookings) == 3
        await client.delete(PODS, "zoe", "default")
        await eventually(all_placed(client, ["next"]))


async def test_an_error_in_the_first_cycle_does_not_end_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: World) -> list[Gang]:
        raise ArithmeticError("first")

    monkeypatch.setattr(rounds, "recall_nominated", fail)
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster):
        client = cluster.client("tester")
        names = await create_gang(client, "healthy", 2, gpus=1)
        await eventually(all_placed(client, names))


@pytest.mark.parametrize(
    "breaks",
    [(Nominations, "write"), (Binder, "bind"), (World, "assume")],
    ids=["nominating", "binding", "assuming"],
)
async def test_victims_of_a_gang_whose_preemption_fails_stay(
    breaks: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("not to be carried out")

    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster) as ours:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        await client.create(PODS, pod("low", 8, nodeName="node-0"), "default")
        await settle()
        with monkeypatch.context() as patch:
            patch.setattr(*breaks, fail)
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await settle(5)
            world = ours.world
            assert world.cluster.snapshot.bookings.keys() == {"default/low"}
            assert "default/low" not in world.leavers
            assert world.cluster.standing.keys() == {"pod/default/low"}
        await eventually(all_placed(client, ["chief"]), within=120)
