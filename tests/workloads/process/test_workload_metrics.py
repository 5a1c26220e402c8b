"""What the operator tells Prometheus, from changes in its caches."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.podgang import PodGang
from kilonova.kube import Client, InProcessTransport, Reply
from kilonova.workloads.caches import Caches, build_caches
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.resources import Pod

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


class Watched:
    """Caches that a test fills by hand, and what is measured of them."""

    def __init__(self) -> None:
        async def nobody(_: object) -> Reply:
            raise AssertionError("metrics ask nobody")

        self.caches: Caches = build_caches(Client(InProcessTransport(nobody)))
        self.registry = CollectorRegistry()
        self.now = BEGIN
        self.metrics = WorkloadMetrics(self.caches, self.registry, lambda: self.now)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"namespace": "team", **labels})

    def gang(self, name: str, phase: str = "Pending", *conditions: str, uid: str = "") -> None:
        status = {"phase": phase, "conditions": [{"type": c, "status": "True"} for c in conditions]}
        self.caches.gangs.store.put(made(PodGang, name, uid, spec={"podgroups": []}, status=status))

    def clique(self, incarnation: str = "", template: str = "", errors: Any = ()) -> None:
        self.caches.cliques.store.put(
            made(
                PodClique,
                "c",
                spec={"roleName": "r", "podSpec": {}, "replicas": 1},
                status={"lastErrors": errors},
                labels={names.PART_OF: "s", names.POD_TEMPLATE_HASH: template},
                annotations={names.INCARNATION: incarnation} if incarnation else {},
            )
        )

    def pod(self, *restarts: int, uid: str = "") -> None:
        statuses = [{"restartCount": count} for count in restarts]
        self.caches.pods.store.put(
            made(Pod, "p", uid, status={"containerStatuses": statuses}, labels={names.PART_OF: "s"})
        )

    def set(self, **progress: str) -> None:
        self.caches.sets.store.put(
            made(
                PodCliqueSet,
                "s",
                spec={"template": {"cliques": []}},
                status={"updateProgress": progress} if progress else {},
            )
        )


def made(type_: Any, name: str, uid: str = "", **fields: Any) -> Any:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": uid or name,
        "resourceVersion": "1",
        "creationTimestamp": "2026-05-01T00:00:00Z",
        "labels": fields.pop("labels", {}),
        "annotations": fields.pop("annotations", {}),
    }
    return msgspec.convert({"metadata": metadata, **fields}, type_)


@pytest.fixture
async def watched() -> AsyncGenerator[Watched]:
    made = Watched()
    task = asyncio.create_task(made.metrics.run())
    await asyncio.sleep(0)
    made.caches.gangs.store.synced = True
    yield made
    task.cancel()
    await asyncio.wait({task})


async def test_gangs_are_counted_by_phase(watched: Watched) -> None:
    watched.gang("a")
    watched.gang("b")
    assert watched.value("kilonova_gangs", phase="Pending") == 2
    watched.gang("a", "Running")
    assert watched.value("kilonova_gangs", phase="Pending") == 1
    assert watched.value("kilonova_gangs", phase="Running") == 1
    watched.caches.gangs.store.remove(("team", "a"))
    assert watched.value("kilonova_gangs", phase="Running") is None


async def test_a_gang_is_timed_until_it_is_scheduled_and_ready_once(watched: Watched) -> None:
    watched.now = BEGIN + timedelta(seconds=100.5)
    watched.gang("a")
    watched.now += timedelta(seconds=2)
    watched.gang("a", "Starting", "Scheduled")
    watched.now += timedelta(seconds=5)
    watched.gang("a", "Running", "Scheduled", "Ready")
    watched.gang("a", "Pending")
    watched.gang("a", "Running", "Scheduled", "Ready")
    assert watched.value("kilonova_gang_scheduled_seconds_count") == 1
    assert watched.value("kilonova_gang_scheduled_seconds_sum") == 2
    assert watched.value("kilonova_gang_ready_seconds_count") == 1
    assert watched.value("kilonova_gang_ready_seconds_sum") == 7


async def test_a_gang_that_was_there_before_is_timed_from_its_creation(watched: Watched) -> None:
    watched.caches.gangs.store.synced = False
    watched.gang("old", "Starting", "Scheduled")
    watched.gang("done", "Running", "Scheduled", "Ready")
    watched.now = BEGIN + timedelta(seconds=30)
    watched.gang("old", "Running", "Scheduled", "Ready")
    assert watched.value("kilonova_gang_scheduled_seconds_count") is None
    assert watched.value("kilonova_gang_ready_seconds_count") == 1
    assert watched.value("kilonova_gang_ready_seconds_sum") == 30


async def test_a_gang_of_the_same_name_is_another(watched: Watched) -> None:
    watched.gang("a", uid="1")
    watched.now += timedelta(seconds=60)
    watched.gang("a", uid="2")
    watched.now += timedelta(seconds=1)
    watched.gang("a", "Running", "Scheduled", "Ready", uid="2")
    assert watched.value("kilonova_gang_ready_seconds_sum") == 1


async def test_restarts_of_containers_are_counted_for_their_set(watched: Watched) -> None:
    watched.pod(3, 0, uid="1")
    assert watched.value("kilonova_pod_restarts_total", podcliqueset="s") is None
    watched.pod(4, 1, uid="1")
    watched.pod(0, 1, uid="2")
    assert watched.value("kilonova_pod_restarts_total", podcliqueset="s") == 2
    watched.set()
    watched.caches.sets.store.remove(("team", "s"))
    assert watched.value("kilonova_pod_restarts_total", podcliqueset="s") is None


async def test_a_start_anew_is_no_update(watched: Watched) -> None:
    watched.clique()
    watched.clique(incarnation="1")
    watched.clique(incarnation="2", template="newer")
    assert watched.value("kilonova_cliques_started_anew_total", podcliqueset="s") == 1


async def test_updates_are_counted_while_and_when_they_are_done(watched: Watched) -> None:
    watched.set()
    assert watched.value("kilonova_sets_updating") is None
    watched.set(updateStartedAt="2026-05-01T00:00:00Z")
    assert watched.value("kilonova_sets_updating") == 1
    watched.set(updateStartedAt="2026-05-01T00:00:00Z", updateEndedAt="2026-05-01T00:01:40Z")
    assert watched.value("kilonova_sets_updating") is None
    assert watched.value("kilonova_set_update_seconds_count") == 1
    assert watched.value("kilonova_set_update_seconds_sum") == 100


async def test_errors_are_shown_until_they_are_gone(watched: Watched) -> None:
    at = "2026-05-01T00:00:00Z"
    error = {"code": "ERR_SYNC_PODS", "description": "no", "observedAt": at}
    watched.clique(errors=[error])
    labels = {"kind": "PodClique", "code": "ERR_SYNC_PODS"}
    assert watched.value("kilonova_last_errors", **labels) == 1
    watched.clique()
    assert watched.value("kilonova_last_errors", **labels) is None
