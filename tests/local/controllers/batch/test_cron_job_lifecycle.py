"""CronJobs on simulated nodes, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.meta import Metadata
from kilonova.api.times import format_rfc3339
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.controllers.batch.cronjob.plan import decide_start
from kilonova.local.controllers.batch.objects import (
    CronJob,
    CronJobSpec,
    CronJobStatus,
    JobReference,
)
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.controllers.batch.job_helpers import JOBS, events_of, job, wait_ended
from tests.local.embedded_cluster import advance_time, find, run_cluster, virtual_time, wait_deleted

pytestmark = virtual_time

CRON_JOBS = unstructured_resource("batch", "v1", "cronjobs", "CronJob", True)
BEGIN_MINUTES = int(datetime(2026, 5, 1, tzinfo=UTC).timestamp()) // 60


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=64, memory="64Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


def cron_job(name: str, schedule: str, *, seconds: float = 5, **spec: Any) -> Any:
    template = {"spec": job("x", seconds=seconds)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def names(client: Client) -> list[str]:
    return sorted(each["metadata"]["name"] for each in (await client.list(JOBS, "default")).items)


async def test_job_starts_on_schedule_and_old_ones_are_deleted(client: Client) -> None:
    await client.create(CRON_JOBS, cron_job("tick", "*/5 * * * *"), "default")
    await asyncio.sleep(31 * 60)
    expected = [f"tick-{BEGIN_MINUTES + minutes}" for minutes in (20, 25, 30)]
    assert await names(client) == expected
    status = (await client.get(CRON_JOBS, "tick", "default"))["status"]
    assert status["lastScheduleTime"] == "2026-05-01T00:30:00Z"
    assert status["lastSuccessfulTime"].startswith("2026-05-01T00:30:")
    assert "active" not in status
    made = await client.get(JOBS, expected[0], "default")
    annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert made["metadata"]["annotations"][annotation] == "2026-05-01T00:20:00Z"
    reasons = {reason for reason, _ in await events_of(client, "tick")}
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= reasons


async def test_forbid_policy_skips_a_start_while_a_job_runs(client: Client) -> None:
    spec: Any = {"concurrencyPolicy": "Forbid"}
    await client.create(CRON_JOBS, cron_job("one", "* * * * *", seconds=150, **spec), "default")
    await asyncio.sleep(125)
    assert await names(client) == [f"one-{BEGIN_MINUTES + 1}"]
    assert "JobAlreadyActive" in {reason for reason, _ in await events_of(client, "one")}


async def test_replace_policy_replaces_a_running_job(client: Client) -> None:
    spec: Any = {"concurrencyPolicy": "Replace"}
    await client.create(CRON_JOBS, cron_job("new", "* * * * *", seconds=1000, **spec), "default")
    await asyncio.sleep(150)
    assert await names(client) == [f"new-{BEGIN_MINUTES + 2}"]
    (active,) = (await client.get(CRON_JOBS, "new", "default"))["status"]["active"]
    assert active["name"] == f"new-{BEGIN_MINUTES + 2}"
    assert (active["kind"], active["apiVersion"]) == ("Job", "batch/v1")


async def test_resumed_cron_job_starts_only_the_latest_missed_job(client: Client) -> None:
    await client.create(CRON_JOBS, cron_job("rest", "* * * * *", suspend=True), "default")
    await asyncio.sleep(10 * 60)
    assert await names(client) == []
    await client.patch(CRON_JOBS, "rest", {"spec": {"suspend": False}}, "default")
    await advance_time(20)
    assert await names(client) == [f"rest-{BEGIN_MINUTES + 10}"]


async def test_changed_schedule_starts_no_past_times(
    client: Client,
) -> None:
    await client.create(CRON_JOBS, cron_job("moved", "0 * * * *"), "default")
    await asyncio.sleep(33 * 60)
    await client.patch(CRON_JOBS, "moved", {"spec": {"schedule": "*/10 * * * *"}}, "default")
    await advance_time(60)
    assert await names(client) == []
    await asyncio.sleep(8 * 60)
    assert await names(client) == [f"moved-{BEGIN_MINUTES + 40}"]


async def test_finished_job_is_deleted_after_its_ttl(client: Client) -> None:
    await client.create(JOBS, job("seen", ttlSecondsAfterFinished=60), "default")
    await wait_ended(client, "seen")
    await advance_time(50)
    assert await find(client, JOBS, "seen") is not None
    await asyncio.sleep(15)
    await wait_deleted(client, JOBS, "seen")


NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)


def stored(ago: timedelta, *, active: tuple[JobReference, ...] = (), **spec: Any) -> CronJob:
    made = format_rfc3339(NOW - ago)
    spec.setdefault("schedule", "* * * * *")
    desired = CronJobSpec(**spec)
    status = CronJobStatus(active=active)
    return CronJob(Metadata("c", "u", "1", creation_timestamp=made), desired, status)


MINUTE = NOW.replace(second=0)
RUNS = (JobReference("c-1", "default", "j"),)


@pytest.mark.parametrize(
    ("found", "start", "reasons"),
    [
        (stored(timedelta(seconds=20)), None, []),
        (stored(timedelta(minutes=1)), MINUTE, []),
        (stored(timedelta(minutes=50)), MINUTE, []),
        # A clock that jumped by years starts one Job, and reports too many missed times.
        (stored(timedelta(days=4000)), MINUTE, ["TooManyMissedTimes"]),
        (stored(timedelta(days=4000), starting_deadline_seconds=200), MINUTE, []),
        (stored(timedelta(days=400), schedule="0 3 * * *", starting_deadline_seconds=60), None, []),
        (stored(timedelta(minutes=5), suspend=True), None, []),
        (stored(timedelta(minutes=5), time_zone="Mars/Olympus"), None, ["UnknownTimeZone"]),
        (stored(timedelta(days=900), schedule="59 23 31 2 *"), None, ["InvalidSchedule"]),
        (stored(timedelta(minutes=5), schedule="*/0 * * * *"), None, ["UnparseableSchedule"]),
        (
            stored(timedelta(minutes=5), active=RUNS, concurrency_policy="Forbid"),
            None,
            ["JobAlreadyActive"],
        ),
        (stored(timedelta(minutes=5), active=RUNS), MINUTE, []),
    ],
)
def test_latest_missed_start(found: CronJob, start: datetime | None, reasons: list[str]) -> None:
    decided = decide_start(found, NOW)
    assert decided.start == start
    assert [reason for reason, _, _ in decided.events] == reasons
