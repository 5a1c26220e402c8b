"""What a scheduler tells Prometheus, after a small story."""

from prometheus_client import CollectorRegistry

from kilonova.kube.metrics import Metrics
from tests.local.embedded_cluster import PODS, eventually, virtual_time
from tests.scheduler.scheduling import (
    QUEUES,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    pod,
    scheduler_on,
)

pytestmark = virtual_time

PREFIX = "kilonova_scheduler_"


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(PREFIX + name, labels)


async def test_decisions_bindings_evictions_and_who_waits_are_counted() -> None:
    metrics = Metrics()
    async with a_cluster(fleet(1)) as cluster, scheduler_on(cluster, instruments=metrics):
        client, registry = cluster.client("tester"), metrics.registry
        await make_priority(client, "high", 1000)
        await client.create(QUEUES, {"metadata": {"name": "q"}, "spec": {"limit": {"cpu": 0}}})
        names = await create_gang(client, "g", 2, gpus=4)
        await eventually(all_placed(client, names))
        held, lost = pod("held"), pod("lost")
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "q"
        lost["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "nowhere"
        early = pod("early", of="not-made-yet")
        for each in (held, lost, early, pod("large", 9)):
            await client.create(PODS, each, "default")

        async def all_decided() -> bool:
            counts = [
                value(registry, "pending_gangs", reason=reason)
                for reason in ("QueueLimit", "UnknownQueue", "NoRoom", "NotListed")
            ]
            return counts == [1, 1, 1, 1]

        await eventually(all_decided)
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await eventually(all_placed(client, ["chief"]))

        async def measured() -> bool:
            return value(registry, "gang_placed_seconds_count") == 2

        await eventually(measured)
        assert value(registry, "bindings_total", result="bound") == 3
        assert value(registry, "bindings_total", result="refused") == 0
        assert value(registry, "binding_seconds_count") == 3
        assert value(registry, "evictions_total", reason="Preempted") == 2
        assert value(registry, "decision_seconds_count", outcome="placed") == 2
        assert (value(registry, "decision_seconds_count", outcome="refused") or 0) >= 2
        assert (value(registry, "round_seconds_count") or 0) >= 2
