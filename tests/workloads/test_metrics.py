"""The operator's Prometheus metrics, computed from changes in its caches."""

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


class MetricsFixture:
    """Caches that a test fills by hand, and the metrics computed from them."""

    def __init__(self) -> None:
        async def unused_handler(_: object) -> Reply:
            raise AssertionError("metrics send no requests")

        self.caches: Caches = build_caches(Client(InProcessTransport(unused_handler)))
        self.registry = CollectorRegistry()
        self.now = BEGIN
        self.metrics = WorkloadMetrics(self.caches, self.registry, lambda: self.now)

    def get_value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"namespace": "team", **labels})

    def update_gang(
        self, name: str, phase: str = "Pending", *conditions: str, uid: str = ""
    ) -> None:
        status = {"phase": phase, "conditions": [{"type": c, "status": "True"} for c in conditions]}
        self.caches.gangs.store.put(
            decode_object(PodGang, name, uid, spec={"podgroups": []}, status=status)
        )

    def update_clique(self, incarnation: str = "", template: str = "", errors: Any = ()) -> None:
        self.caches.cliques.store.put(
            decode_object(
                PodClique,
                "c",
                spec={"roleName": "r", "podSpec": {}, "replicas": 1},
                status={"lastErrors": errors},
                labels={names.PART_OF: "s", names.POD_TEMPLATE_HASH: template},
                annotations={names.INCARNATION: incarnation} if incarnation else {},
            )
        )

    def update_pod(self, *restarts: int, uid: str = "") -> None:
        statuses = [{"restartCount": count} for count in restarts]
        self.caches.pods.store.put(
            decode_object(
                Pod, "p", uid, status={"containerStatuses": statuses}, labels={names.PART_OF: "s"}
            )
        )

    def update_set(self, **progress: str) -> None:
        self.caches.sets.store.put(
            decode_object(
                PodCliqueSet,
                "s",
                spec={"template": {"cliques": []}},
                status={"updateProgress": progress} if progress else {},
            )
        )


def decode_object(type_: Any, name: str, uid: str = "", **fields: Any) -> Any:
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
async def watched() -> AsyncGenerator[MetricsFixture]:
    created = MetricsFixture()
    task = asyncio.create_task(created.metrics.run())
    await asyncio.sleep(0)
    created.caches.gangs.store.has_synced = True
    yield created
    task.cancel()
    await asyncio.wait({task})


async def test_gangs_are_counted_by_phase(watched: MetricsFixture) -> None:
    watched.update_gang("a")
    watched.update_gang("b")
    assert watched.get_value("kilonova_gangs", phase="Pending") == 2
    watched.update_gang("a", "Running")
    assert watched.get_value("kilonova_gangs", phase="Pending") == 1
    assert watched.get_value("kilonova_gangs", phase="Running") == 1
    watched.caches.gangs.store.remove(("team", "a"))
    assert watched.get_value("kilonova_gangs", phase="Running") is None


async def test_a_gang_is_timed_until_it_is_scheduled_and_ready_once(
    watched: MetricsFixture,
) -> None:
    watched.now = BEGIN + timedelta(seconds=100.5)
    watched.update_gang("a")
    watched.now += timedelta(seconds=2)
    watched.update_gang("a", "Starting", "Scheduled")
    watched.now += timedelta(seconds=5)
    watched.update_gang("a", "Running", "Scheduled", "Ready")
    watched.update_gang("a", "Pending")
    watched.update_gang("a", "Running", "Scheduled", "Ready")
    assert watched.get_value("kilonova_gang_scheduled_seconds_count") == 1
    assert watched.get_value("kilonova_gang_scheduled_seconds_sum") == 2
    assert watched.get_value("kilonova_gang_ready_seconds_count") == 1
    assert watched.get_value("kilonova_gang_ready_seconds_sum") == 7


async def test_existing_gang_is_timed_from_its_creation(
    watched: MetricsFixture,
) -> None:
    watched.caches.gangs.store.has_synced = False
    watched.update_gang("old", "Starting", "Scheduled")
    watched.update_gang("done", "Running", "Scheduled", "Ready")
    watched.now = BEGIN + timedelta(seconds=30)
    watched.update_gang("old", "Running", "Scheduled", "Ready")
    assert watched.get_value("kilonova_gang_scheduled_seconds_count") is None
    assert watched.get_value("kilonova_gang_ready_seconds_count") == 1
    assert watched.get_value("kilonova_gang_ready_seconds_sum") == 30


async def test_recreated_gang_is_timed_again(watched: MetricsFixture) -> None:
    watched.update_gang("a", uid="1")
    watched.now += timedelta(seconds=60)
    watched.update_gang("a", uid="2")
    watched.now += timedelta(seconds=1)
    watched.update_gang("a", "Running", "Scheduled", "Ready", uid="2")
    assert watched.get_value("kilonova_gang_ready_seconds_sum") == 1


async def test_restarts_of_containers_are_counted_for_their_set(watched: MetricsFixture) -> None:
    watched.update_pod(3, 0, uid="1")
    assert watched.get_value("kilonova_pod_restarts_total", podcliqueset="s") is None
    watched.update_pod(4, 1, uid="1")
    watched.update_pod(0, 1, uid="2")
    assert watched.get_value("kilonova_pod_restarts_total", podcliqueset="s") == 2
    watched.update_set()
    watched.caches.sets.store.remove(("team", "s"))
    assert watched.get_value("kilonova_pod_restarts_total", podcliqueset="s") is None


async def test_restart_is_not_counted_as_update(watched: MetricsFixture) -> None:
    watched.update_clique()
    watched.update_clique(incarnation="1")
    watched.update_clique(incarnation="2", template="newer")
    assert watched.get_value("kilonova_clique_restarts_total", podcliqueset="s") == 1


async def test_updates_are_counted_while_in_progress_and_timed_when_done(
    watched: MetricsFixture,
) -> None:
    watched.update_set()
    assert watched.get_value("kilonova_podcliquesets_updating") is None
    watched.update_set(updateStartedAt="2026-05-01T00:00:00Z")
    assert watched.get_value("kilonova_podcliquesets_updating") == 1
    watched.update_set(updateStartedAt="2026-05-01T00:00:00Z", updateEndedAt="2026-05-01T00:01:40Z")
    assert watched.get_value("kilonova_podcliquesets_updating") is None
    assert watched.get_value("kilonova_podcliqueset_update_seconds_count") == 1
    assert watched.get_value("kilonova_podcliqueset_update_seconds_sum") == 100


async def test_errors_are_counted_until_they_are_resolved(watched: MetricsFixture) -> None:
    at = "2026-05-01T00:00:00Z"
    error = {"code": "ERR_SYNC_PODS", "description": "no", "observedAt": at}
    watched.update_clique(errors=[error])
    labels = {"kind": "PodClique", "code": "ERR_SYNC_PODS"}
    assert watched.get_value("kilonova_unresolved_errors", **labels) == 1
    watched.update_clique()
    assert watched.get_value("kilonova_unresolved_errors", **labels) is None
