"""Extreme numbers that the schema allows."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api import cron, quantity
from kilonova.api.times import add_seconds, parse_time
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import (
    PODS,
    START_TIME,
    find,
    pod,
    run_cluster,
    wait_for_condition,
)

LARGEST, LONGEST = (1 << 31) - 1, (1 << 63) - 1
pytestmark = pytest.mark.looptime

SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet", True)
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)
CRON_JOBS = unstructured_resource("batch", "v1", "cronjobs", "CronJob", True)


def template(**spec: Any) -> Any:
    container = {"name": "main", "image": "img"}
    return {"metadata": {"labels": {"app": "it"}}, "spec": {"containers": [container], **spec}}


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-LONGEST, LONGEST))
def test_any_number_of_seconds_is_in_range(moment: datetime, seconds: int) -> None:
    found = add_seconds(moment, seconds)
    assert (found >= moment) is (seconds >= 0)
    if abs(seconds) < 3600 and 2 < moment.year < 9998:
        assert found - moment == timedelta(seconds=seconds)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["* * * * *", "0 0 29 2 *", "@every 2562047h", "@every 1s", "@yearly"]),
)
def test_any_schedule_has_a_next_time_or_none(moment: datetime, schedule: str) -> None:
    found = cron.parse_schedule(schedule).next(moment)
    assert found is None or found >= moment


@given(st.text("0123456789.eE+-*/,@? evryhmsnTZ=\u0663\u00b2", max_size=40))
@example("@every " + "9" * 400 + "h")
@example("@every 2562048h")
@example("*/" + "9" * 5000 + " * * * *")
def test_any_schedule_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(cron.ScheduleError):
        assert cron.parse_schedule(text).next(START_TIME) is None or text


@given(st.text("0123456789.eE+-numkKMGTPEi\u0663\u00b2", max_size=40))
@example("1e" + "9" * 5000)
@example("9" * 5000)
def test_any_quantity_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(ValueError):
        amount = quantity.parse_quantity(text)
        assert quantity.parse_quantity(str(amount)) == amount


@pytest.mark.parametrize("grace", [LARGEST, LARGEST + 1, 10**15, LONGEST])
async def test_pod_with_huge_grace_period_can_be_deleted(grace: int) -> None:
    async with run_cluster(controllers="serviceaccount-controller") as cluster:
        client = cluster.client("somebody")
        await wait_for_condition(lambda: _has_account(client))
        made = pod("slow", terminationGracePeriodSeconds=grace, nodeName="somewhere")
        await client.create(PODS, made, "default")
        await client.delete(PODS, "slow", "default")
        metadata = (await client.get(PODS, "slow", "default"))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == LARGEST
        assert parse_time(metadata["deletionTimestamp"]) > START_TIME + timedelta(days=60 * 365)
        await client.delete(PODS, "slow", "default", grace_period_seconds=30)
        metadata = (await client.get(PODS, "slow", "default"))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 30


async def _has_account(client: Any) -> bool:
    accounts = unstructured_resource("", "v1", "serviceaccounts", "ServiceAccount", True)
    return await find(client, accounts, "default") is not None


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_huge_replica_set_is_created_in_batches(policy: str) -> None:
    async with run_cluster() as cluster:
        client = cluster.client("somebody")
        spec = {
            "replicas": LARGEST,
            "ordinals": {"start": LARGEST},
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": "it"}},
            "template": template(),
        }
        await client.create(SETS, {"metadata": {"name": "vast"}, "spec": spec}, "default")
        names = [f"vast-{LARGEST + index}" for index in range(1 if policy == "OrderedReady" else 9)]
        for name in names:
            await wait_for_condition(lambda name=name: _is_there(client, name))
        await client.delete(SETS, "vast", "default")


async def _is_there(client: Any, name: str) -> bool:
    return await find(client, PODS, name) is not None


async def test_job_with_huge_deadline_starts() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("somebody")
        spec = {"activeDeadlineSeconds": LONGEST, "template": template(restartPolicy="Never")}
        await client.create(JOBS, {"metadata": {"name": "patient"}, "spec": spec}, "default")

        async def is_active() -> bool:
            job = await client.get(JOBS, "patient", "default")
            return job["status"].get("active") == 1

        await wait_for_condition(is_active)


async def test_cron_job_with_huge_deadline_starts_jobs() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("somebody")
        spec = {
            "schedule": "* * * * *",
            "startingDeadlineSeconds": LONGEST,
            "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
        }
        await client.create(CRON_JOBS, {"metadata": {"name": "often"}, "spec": spec}, "default")

        async def has_started() -> bool:
            return bool((await client.list(JOBS, "default")).items)

        await wait_for_condition(has_started, within=90)
