"""An unexpected error about one object costs that object one attempt, and others nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.observability.metrics import Metrics
from kilonova.scheduler.binding.binder import Binder
from kilonova.scheduler.binding.volume_binder import VolumeBinder
from kilonova.scheduler.cache.placed_pods import PlacedPods
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.core import scheduling_cycle
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.cycle import scheduling_loop
from kilonova.scheduler.eviction.nominations import NominationWriter
from kilonova.scheduler.failures.node_avoidance import NodeAvoidance
from kilonova.scheduler.objects.core_v1 import Pod
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    running_scheduler,
)

pytestmark = virtual_time

FAULTY_GANG = "default/poison"


class InjectedFault:
    """Make a function fail for the gang `poison`, until it is repaired."""

    def __init__(self, name_of: Callable[..., str]) -> None:
        self.active = True
        self._name_of = name_of

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **named: Any) -> Any:
            if self.active and self._name_of(*args) == FAULTY_GANG:
                raise ArithmeticError("operands could not be broadcast")
            return function(*args, **named)

        return failing


def break_decisions(patch: pytest.MonkeyPatch) -> InjectedFault:
    fault = InjectedFault(lambda _, gang, *__: gang.name)
    patch.setattr(Placer, "place", fault.around(Placer.place))
    return fault


def break_cycles(patch: pytest.MonkeyPatch) -> InjectedFault:
    fault = InjectedFault(lambda gang: gang.name)
    patch.setattr(scheduling_cycle, "gang_charges", fault.around(scheduling_cycle.gang_charges))
    return fault


def break_reading(patch: pytest.MonkeyPatch) -> InjectedFault:
    fault = InjectedFault(lambda _, gang: gang.name)
    patch.setattr(NodeAvoidance, "apply_avoidance", fault.around(NodeAvoidance.apply_avoidance))
    return fault


def has_scheduler_error(client: Client, gang: str) -> Callable[[], Awaitable[bool]]:
    """Whether a gang has the reason `SchedulerError`."""

    async def condition_holds() -> bool:
        found = await client.get(GANGS, gang, "default")
        conditions = found.get("status", {}).get("conditions", [])
        return any(each["reason"] == "SchedulerError" for each in conditions)

    return condition_holds


@pytest.mark.parametrize("breaking", [break_decisions, break_cycles, break_reading])
async def test_gang_that_fails_scheduling_delays_no_other(
    breaking: Callable[[pytest.MonkeyPatch], InjectedFault], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, metrics = breaking(monkeypatch), Metrics()
    async with (
        embedded_cluster(fleet(2)) as cluster,
        running_scheduler(cluster, instruments=metrics) as ours,
    ):
        client = cluster.client("tester")
        poisoned = await create_gang(client, "poison", 2, gpus=1)
        healthy = await create_gang(client, "healthy", 2, gpus=1)
        await wait_for_condition(are_all_placed(client, healthy))
        await wait_for_condition(has_scheduler_error(client, "poison"))
        (condition,) = (await client.get(GANGS, "poison", "default"))["status"]["conditions"]
        assert "ArithmeticError: operands could not be broadcast" in condition["message"]
        nodes = await nodes_by_pod(client)
        assert [nodes[name] for name in poisoned] == ["", ""]
        errors = [
            sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "kilonova_scheduler_errors_total"
        ]
        assert sum(errors) > 0
        assert ours.cache.cluster.snapshot.placements.keys() == {f"default/{n}" for n in healthy}
        fault.active = False
        ours.cache.mark_dirty(FAULTY_GANG)
        await wait_for_condition(are_all_placed(client, poisoned))


async def test_gang_that_failed_scheduling_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = break_decisions(monkeypatch)
    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster):
        client = cluster.client("tester")
        names = await create_gang(client, "poison", 2, gpus=1)
        await wait_for_condition(has_scheduler_error(client, "poison"))
        fault.active = False
        await wait_for_condition(are_all_placed(client, names))


async def test_gang_whose_binding_fails_releases_its_capacity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = InjectedFault(lambda _, pod_placements: pod_placements[0].gang)
    monkeypatch.setattr(VolumeBinder, "bind_volumes", fault.around(VolumeBinder.bind_volumes))
    metrics = Metrics()
    async with (
        embedded_cluster(fleet(1)) as cluster,
        running_scheduler(cluster, instruments=metrics),
    ):
        client = cluster.client("tester")
        poisoned = await create_gang(client, "poison", 2, gpus=4)

        async def contained() -> bool:
            labels = {"part": "binding"}
            name = "kilonova_scheduler_errors_total"
            return bool(metrics.registry.get_sample_value(name, labels))

        await wait_for_condition(contained)
        healthy = await create_gang(client, "healthy", 2, gpus=4)
        await wait_for_condition(are_all_placed(client, healthy))
        fault.active = False
        for name in healthy:
            await client.delete(PODS, name, "default")
        await wait_for_condition(are_all_placed(client, poisoned))


async def test_pod_that_breaks_the_cache_excludes_only_its_node() -> None:
    async with embedded_cluster(fleet(2, gpus=2)) as cluster, running_scheduler(cluster) as ours:
        client = cluster.client("tester")

        def fail(_: Pod | None, new: Pod | None) -> None:
            if new is not None and new.metadata.name == "bad" and new.spec.node_name:
                raise ArithmeticError("not to be counted")

        ours.informers.pods.store.add_event_handler(fail)
        await client.create(PODS, pod("bad", 1), "default")
        await wait_for_condition(are_all_placed(client, ["bad"]))
        bad = (await nodes_by_pod(client))["bad"]

        async def excluded() -> bool:
            return bad not in ours.cache.cluster.snapshot

        await wait_for_condition(excluded)
        await client.create(PODS, pod("good", 1), "default")
        await wait_for_condition(are_all_placed(client, ["good"]))
        assert (await nodes_by_pod(client))["good"] != bad


async def test_failed_scheduling_attempt_leaves_the_cache_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail_after_booking(
        self: scheduling_cycle.SchedulingCycle, gang: Gang, pod_placements: object
    ) -> object:
        raise ArithmeticError("late")

    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster) as ours:
        client = cluster.client("tester")
        with monkeypatch.context() as patch:
            patch.setattr(scheduling_cycle.SchedulingCycle, "_trim_to_limits", fail_after_booking)
            names = await create_gang(client, "late", 2, gpus=4)
            await wait_for_condition(has_scheduler_error(client, "late"))
            assert not ours.cache.cluster.snapshot.placements
            assert not ours.cache.cluster.running_gangs
        await wait_for_condition(are_all_placed(client, names))


async def test_excluded_node_returns_only_with_all_its_pods_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = InjectedFault(lambda _, pod: pod.key)
    monkeypatch.setattr(PlacedPods, "add_to_snapshot", fault.around(PlacedPods.add_to_snapshot))
    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster) as ours:
        client = cluster.client("tester")
        for name, gpus in (("before", 2), ("poison", 4), ("zoe", 2)):
            await client.create(PODS, pod(name, gpus, nodeName="node-0"), "default")
        await advance_time()
        await client.create(PODS, pod("next", 2), "default")
        for beat in ("1", "2"):
            await client.patch(NODES, "node-0", {"metadata": {"annotations": {"beat": beat}}})
            await advance_time()
            assert "node-0" not in ours.cache.cluster.snapshot
        assert (await nodes_by_pod(client))["next"] == ""
        fault.active = False
        await client.patch(NODES, "node-0", {"metadata": {"annotations": {"beat": "3"}}})
        await advance_time()
        assert len(ours.cache.cluster.snapshot.placements) == 3
        await client.delete(PODS, "zoe", "default")
        await wait_for_condition(are_all_placed(client, ["next"]))


async def test_error_in_the_first_cycle_does_not_end_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: SchedulerCache) -> list[Gang]:
        raise ArithmeticError("first")

    monkeypatch.setattr(scheduling_loop, "restore_nominated_gangs", fail)
    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster):
        client = cluster.client("tester")
        names = await create_gang(client, "healthy", 2, gpus=1)
        await wait_for_condition(are_all_placed(client, names))


@pytest.mark.parametrize(
    "breaks",
    [(NominationWriter, "nominate_gang"), (Binder, "bind"), (SchedulerCache, "assume")],
    ids=["nominating", "binding", "assuming"],
)
async def test_victims_of_a_gang_whose_preemption_fails_stay(
    breaks: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("not to be carried out")

    async with embedded_cluster(fleet(1)) as cluster, running_scheduler(cluster) as ours:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        await client.create(PODS, pod("low", 8, nodeName="node-0"), "default")
        await advance_time()
        with monkeypatch.context() as patch:
            patch.setattr(*breaks, fail)
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await advance_time(5)
            cache = ours.cache
            assert cache.cluster.snapshot.placements.keys() == {"default/low"}
            assert "default/low" not in cache.terminating
            assert cache.cluster.running_gangs.keys() == {"pod/default/low"}
        await wait_for_condition(are_all_placed(client, ["chief"]), within=120)
