"""Metrics of a scheduler after a small scenario."""

from prometheus_client import CollectorRegistry

from kilonova.kube.observability.metrics import Metrics
from kilonova.scheduler.metrics import SchedulerMetrics
from tests.local.embedded_cluster import PODS, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    QUEUES,
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    pod,
    running_scheduler,
)

pytestmark = virtual_time

PREFIX = "kilonova_scheduler_"


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(PREFIX + name, labels)


async def test_decisions_bindings_evictions_and_pending_gangs_are_counted() -> None:
    metrics = Metrics()
    async with (
        embedded_cluster(fleet(1)) as cluster,
        running_scheduler(cluster, instruments=metrics),
    ):
        client, registry = cluster.client("tester"), metrics.registry
        await create_priority_class(client, "high", 1000)
        await client.create(QUEUES, {"metadata": {"name": "q"}, "spec": {"limit": {"cpu": 0}}})
        names = await create_gang(client, "g", 2, gpus=4)
        await wait_for_condition(are_all_placed(client, names))
        held, lost = pod("held"), pod("lost")
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "q"
        lost["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "nowhere"
        early = pod("early", gang="not-made-yet")
        for each in (held, lost, early, pod("large", 9)):
            await client.create(PODS, each, "default")

        async def all_decided() -> bool:
            counts = [
                value(registry, "pending_gangs", reason=reason)
                for reason in (
                    "QueueLimitReached",
                    "QueueNotFound",
                    "InsufficientCapacity",
                    "NotListedInGang",
                )
            ]
            return counts == [1, 1, 1, 1]

        await wait_for_condition(all_decided)
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await wait_for_condition(are_all_placed(client, ["chief"]))

        async def measured() -> bool:
            return value(registry, "gang_bound_seconds_count") == 2

        await wait_for_condition(measured)
        assert value(registry, "bindings_total", result="bound") == 3
        assert value(registry, "bindings_total", result="failed") == 0
        assert value(registry, "binding_seconds_count") == 3
        assert value(registry, "evictions_total", reason="Preempted") == 2
        assert value(registry, "decision_seconds_count", outcome="placed") == 2
        assert (value(registry, "decision_seconds_count", outcome="rejected") or 0) >= 2
        assert (value(registry, "cycle_seconds_count") or 0) >= 2


async def test_decisions_are_counted_under_the_names_of_kgwe() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    metrics.observe_decision(placed=True, seconds=0.004)
    metrics.observe_decision(placed=True, seconds=0.04)
    metrics.observe_decision(placed=False, seconds=0.4)

    read = registry.get_sample_value
    assert read("kgwe_scheduling_attempts_total") == 3
    assert read("kgwe_scheduling_successes_total") == 2
    assert read("kgwe_scheduling_failures_total") == 1
    bounds = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
    within = [read("kgwe_scheduling_latency_ms_bucket", {"le": f"{x}.0"}) for x in bounds]
    assert within == [1, 1, 2, 2, 2, 3, 3, 3, 3]


async def test_evictions_for_the_sake_of_others_are_preemptions() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    metrics.count_eviction("Preempted")
    metrics.count_eviction("PartialGangEvicted")
    assert registry.get_sample_value("kgwe_preemptions_total") == 1
