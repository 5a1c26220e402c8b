"""Numbers that no object should have, and that the schema allows."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api import quantity
from kilonova.api.times import later, parse_time
from kilonova.kube.resource import plain
from kilonova.local import cron
from tests.local.embedded_cluster import BEGIN, PODS, eventually, find, pod, running

LARGEST, LONGEST = (1 << 31) - 1, (1 << 63) - 1
pytestmark = pytest.mark.looptime

SETS = plain("apps", "v1", "statefulsets", "StatefulSet", True)
JOBS = plain("batch", "v1", "jobs", "Job", True)
CRON_JOBS = plain("batch", "v1", "cronjobs", "CronJob", True)


def template(**spec: Any) -> Any:
    container = {"name": "main", "image": "img"}
    return {"metadata": {"labels": {"app": "it"}}, "spec": {"containers": [container], **spec}}


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-LONGEST, LONGEST))
def test_no_number_of_seconds_leaves_the_calendar(moment: datetime, seconds: int) -> None:
    found = later(moment, seconds)
    assert (found >= moment) is (seconds >= 0)
    if abs(seconds) < 3600 and 2 < moment.year < 9998:
        assert found - moment == timedelta(seconds=seconds)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["* * * * *", "0 0 29 2 *", "@every 2562047h", "@every 1s", "@yearly"]),
)
def test_a_schedule_has_a_next_time_or_none(moment: datetime, schedule: str) -> None:
    found = cron.parse(schedule).next(moment)
    assert found is None or found >= moment


@given(st.text("0123456789.eE+-*/,@? evryhmsnTZ=\u0663\u00b2", max_size=40))
@example("@every " + "9" * 400 + "h")
@example("@every 2562048h")
@example("*/" + "9" * 5000 + " * * * *")
def test_a_schedule_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(cron.ScheduleError):
        assert cron.parse(text).next(BEGIN) is None or text


@given(st.text("0123456789.eE+-numkKMGTPEi\u0663\u00b2", max_size=40))
@example("1e" + "9" * 5000)
@example("9" * 5000)
def test_a_quantity_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        amount = quantity.parse(text)
        assert quantity.parse(str(amount)) == amount


@pytest.mark.parametrize("grace", [LARGEST, LARGEST + 1, 10**15, LONGEST])
async def test_a_pod_with_endless_grace_can_be_deleted(grace: int) -> None:
    async with running(controllers="serviceaccount-controller") as cluster:
        client = cluster.client("somebody")
        await eventually(lambda: _has_account(client))
        made = pod("slow", terminationGracePeriodSeconds=grace, nodeName="somewhere")
        await client.create(PODS, made, "default")
        await client.delete(PODS, "slow", "default")
        metadata = (await client.get(PODS, "slow", "default"))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == LARGEST
        assert parse_time(metadata["deletionTimestamp"]) > BEGIN + timedelta(days=60 * 365)
        await client.delete(PODS, "slow", "default", grace=30)
        metadata = (await client.get(PODS, "slow", "default"))["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 30


async def _has_account(client: Any) -> bool:
    accounts = plain("", "v1", "serviceaccounts", "ServiceAccount", True)
    return await find(client, accounts, "default") is not None


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_a_set_of_billions_grows_step_by_step(policy: str) -> None:
    async with running() as cluster:
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
            await eventually(lambda name=name: _is_there(client, name))
        await client.delete(SETS, "vast", "default")


async def _is_there(client: Any, name: str) -> bool:
    return await find(client, PODS, name) is not None


async def test_a_job_with_an_endless_deadline_starts() -> None:
    async with running() as cluster:
        client = cluster.client("somebody")
        spec = {"activeDeadlineSeconds": LONGEST, "template": template(restartPolicy="Never")}
        await client.create(JOBS, {"metadata": {"name": "patient"}, "spec": spec}, "default")

        async def is_active() -> bool:
            job = await client.get(JOBS, "patient", "default")
            return job["status"].get("active") == 1

        await eventually(is_active)


async def test_a_cron_job_with_endless_patience_starts_jobs() -> None:
    async with running() as cluster:
        client = cluster.client("somebody")
        spec = {
            "schedule": "* * * * *",
            "startingDeadlineSeconds": LONGEST,
            "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
        }
        await client.create(CRON_JOBS, {"metadata": {"name": "often"}, "spec": spec}, "default")

        async def has_started() -> bool:
            return bool((await client.list(JOBS, "default")).items)

        await eventually(has_started, within=90)
