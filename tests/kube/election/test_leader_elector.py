"""Leader election on a Lease: one leader at a time, and a deposed one writes nothing. Virtual
time."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.kube.client.client import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.election import (
    ApiLeaseStore,
    FencedTransport,
    LeaderElectionTiming,
    LeaderElector,
    Leadership,
    LeadershipLost,
)
from tests.kube.memory_api import MemoryApi, MemoryTransport

pytestmark = pytest.mark.looptime

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/operator"
CONFIGMAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Replica:
    """One replica of a process: its transport, its wall clock, and what it did as leader."""

    api: MemoryApi
    name: str
    skew: timedelta = timedelta()
    terms: list[int] = field(default_factory=list[int])
    led: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.link = MemoryTransport(self.api)
        self.elector = LeaderElector(
            ApiLeaseStore(Client(self.link), "operator", "system"),
            identity=self.name,
            clock=now,
            wall=lambda: BEGIN + self.skew + timedelta(seconds=now()),
            jitter=lambda: 0.0,
        )
        fenced = FencedTransport(self.link, lambda: self.elector.leadership)
        self.client = Client(fenced, field_manager=self.name)
        self.leading = asyncio.Event()

    def start(self) -> None:
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self, leadership: Leadership) -> None:
        self.terms.append(leadership.token)
        begin = now()
        self.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.clear()
            self.led.append((begin, now()))

    async def end(self) -> None:
        """Wait until it ends by itself."""
        assert self.task is not None
        await self.task

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task

    async def write(self, name: str = "x") -> None:
        await self.client.create(CONFIGMAPS, {"metadata": {"name": name}}, "default")


def lease(api: MemoryApi) -> Any:
    return api.objects[PATH]["spec"]


async def test_first_candidate_creates_the_lease_and_leads():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await one.leading.wait()
    assert lease(api) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-05-01T00:00:00.000000Z",
        "renewTime": "2026-05-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    await one.stop()


async def test_leader_renews_and_keeps_its_acquire_time():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(60.5)
    assert lease(api)["renewTime"] == "2026-05-01T00:01:00.000000Z"
    assert lease(api)["acquireTime"] == "2026-05-01T00:00:00.000000Z"
    assert len(api.writes) == 31
    assert all(re.fullmatch(r".*\.\d{6}Z", w["spec"]["renewTime"]) for _, _, w in api.writes)
    await one.stop()


async def test_one_of_two_simultaneous_candidates_leads():
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two")
    one.link.from_server = two.link.from_server = 0.1
    one.start()
    two.start()
    await asyncio.sleep(60)
    assert [one.leading.is_set(), two.leading.is_set()].count(True) == 1
    assert one.elector.holder == two.elector.holder
    await one.stop()
    await two.stop()


@pytest.mark.parametrize("skew", [timedelta(), timedelta(hours=-3), timedelta(hours=3)])
async def test_dead_leader_is_replaced_after_expiry_despite_clock_skew(skew):
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two", skew)
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(21)
    one.link.cut = True
    await two.leading.wait()
    last_renewal = 20.0
    assert last_renewal + 15 <= now() <= last_renewal + 15 + 2, "as soon as it has expired"
    assert two.terms == [1]
    with pytest.raises(LeadershipLost):
        await one.end()
    assert one.led[0][1] <= last_renewal + 10, "it stepped down before the other could lead"
    await two.stop()


async def test_clock_skew_does_not_depose_a_live_leader():
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two", timedelta(days=1))
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(120)
    assert (one.terms, two.terms) == ([0], [])
    await one.stop()
    await two.stop()


async def test_graceful_stop_hands_over_at_once():
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two")
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(5)
    await one.stop()
    assert (lease(api)["holderIdentity"], lease(api)["leaseDurationSeconds"]) == ("", 1)
    stopped = now()
    await two.leading.wait()
    assert now() - stopped <= 2
    assert two.terms == [1]
    await two.stop()


async def test_lease_is_renewed_during_stop_and_released_after_it():
    api = MemoryApi()
    holders: list[str] = []

    async def slow_to_stop(leadership: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(30)
            leadership.check()
            holders.append(lease(api)["holderIdentity"])

    one = Replica(api, "one")
    task = asyncio.create_task(one.elector.run(slow_to_stop))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holders == ["one"]
    assert lease(api)["holderIdentity"] == ""


async def test_failing_leader_releases_the_lease_and_raises():
    api = MemoryApi()

    async def fails(leadership: Leadership) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Replica(api, "one").elector.run(fails)
    assert lease(api)["holderIdentity"] == ""


async def test_cancelled_elector_ends_although_the_work_fails_then():
    api = MemoryApi()
    one = Replica(api, "one")

    async def fails_when_cancelled(leadership: Leadership) -> None:
        one.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise LeadershipLost("lease", "a write was in flight")

    task = asyncio.create_task(one.elector.run(fails_when_cancelled))
    await one.leading.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lease(api)["holderIdentity"] == ""


async def test_run_ends_when_the_work_returns():
    api = MemoryApi()

    async def returns(leadership: Leadership) -> None: ...

    one = Replica(api, "one")
    await one.elector.run(returns)
    assert one.elector.leadership is None


async def test_candidate_waits_out_an_api_outage():
    api = MemoryApi()
    one = Replica(api, "one")
    one.link.cut = True
    one.start()
    await asyncio.sleep(300)
    one.link.cut = False
    await one.leading.wait()
    assert now() < 303
    await one.stop()


async def test_short_outage_keeps_leadership():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(5)
    one.link.cut = True
    await asyncio.sleep(7)
    one.link.cut = False
    await asyncio.sleep(60)
    assert one.led == []
    await one.stop()


async def test_slow_api_below_the_deadline_keeps_leadership():
    api = MemoryApi()
    one = Replica(api, "one")
    one.link.to_server = one.link.from_server = 1.5
    one.start()
    await asyncio.sleep(120)
    assert one.terms == [0]
    assert one.led == []
    await one.stop()


async def test_lost_responses_keep_leadership():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(5)
    one.link.from_server = 60
    await asyncio.sleep(4)
    one.link.from_server = 0
    await asyncio.sleep(30)
    assert one.led == []
    assert lease(api)["leaseTransitions"] == 0
    await one.stop()


async def test_hanging_api_ends_leadership_on_time():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(4.5)
    one.link.to_server = 1e6
    with pytest.raises(LeadershipLost, match="system/operator is lost: it was not renewed"):
        await one.end()
    assert now() == pytest.approx(4 + 10)


async def test_leader_that_observes_another_holder_steps_down():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(5)
    api.objects[PATH]["spec"]["holderIdentity"] = "usurper"
    api.objects[PATH]["metadata"]["resourceVersion"] = "1000"
    with pytest.raises(LeadershipLost, match="usurper holds it"):
        await one.end()
    assert now() == pytest.approx(6)
    assert lease(api)["holderIdentity"] == "usurper"


async def test_labels_of_others_on_the_lease_are_preserved():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(5)
    api.objects[PATH]["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "1000"}
    await asyncio.sleep(30)
    assert one.led == []
    assert api.objects[PATH]["metadata"]["labels"] == {"a": "b"}
    await one.stop()


async def test_deleted_lease_is_recreated_with_its_token():
    api = MemoryApi()
    one = Replica(api, "one")
    api.objects[PATH] = {
        "metadata": {"name": "operator", "resourceVersion": "0"},
        "spec": {"holderIdentity": "", "leaseTransitions": 7},
    }
    one.start()
    await asyncio.sleep(5)
    assert one.terms == [8]
    del api.objects[PATH]
    await asyncio.sleep(5)
    assert lease(api)["leaseTransitions"] == 8
    assert one.led == []
    await one.stop()


async def test_deleted_lease_is_respected_until_expiry():
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two")
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(10.5)
    one.link.cut = True
    del api.objects[PATH]
    await two.leading.wait()
    assert now() >= 10 + 15
    assert two.terms == [1]
    with pytest.raises(LeadershipLost):
        await one.end()
    await two.stop()


async def test_second_term_of_a_process_has_a_greater_token():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(5)
    one.link.cut = True
    with pytest.raises(LeadershipLost):
        await one.end()
    one.link.cut = False
    one.start()
    await one.leading.wait()
    assert one.terms == [0, 1]
    await one.stop()


async def test_leadership_changes_are_reported():
    api = MemoryApi()
    reported: list[bool] = []
    elector = LeaderElector(
        ApiLeaseStore(Client(MemoryTransport(api)), "operator", "system"),
        clock=now,
        on_leadership_change=reported.append,
    )

    async def returns(leadership: Leadership) -> None: ...

    await elector.run(returns)
    assert reported == [True, False]
    assert elector.identity


# --- fencing


async def test_only_the_leader_writes():
    api = MemoryApi()
    one, two = Replica(api, "one"), Replica(api, "two")
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(5)
    await one.write("by-one")
    with pytest.raises(LeadershipLost):
        await two.write("by-two")
    await two.client.get(CONFIGMAPS, "by-one", "default")
    await one.stop()
    with pytest.raises(LeadershipLost):
        await one.write("by-one-again")
    await two.stop()


async def test_blocked_leader_writes_nothing_after_expiry():
    blocked = 0.0
    api = MemoryApi()
    link = MemoryTransport(api)
    elector = LeaderElector(
        ApiLeaseStore(Client(link), "operator", "system"), clock=lambda: now() + blocked
    )
    client = Client(FencedTransport(link, lambda: elector.leadership))
    valid: list[bool] = []

    async def lead(leadership: Leadership) -> None:
        nonlocal blocked
        valid.append(leadership.is_valid())
        blocked = 10.0  # as if this callback had run for ten seconds
        valid.append(leadership.is_valid())
        await client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")

    with pytest.raises(LeadershipLost):
        await elector.run(lead)
    assert valid == [True, False]
    assert [path for _, path, _ in api.writes] == [PATH]


async def test_write_in_flight_is_cancelled_when_another_may_lead():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await asyncio.sleep(9.5)
    one.link.to_server = 1e6
    with pytest.raises(LeadershipLost, match="in flight"):
        await one.write()
    assert now() == pytest.approx(8 + 15)
    with pytest.raises(LeadershipLost):
        await one.end()


async def test_slow_write_continues_while_leadership_is_renewed():
    api = MemoryApi()
    one = Replica(api, "one")
    one.start()
    await one.leading.wait()
    slow = MemoryTransport(api, to_server=60)
    fenced = FencedTransport(slow, lambda: one.elector.leadership)
    await Client(fenced).create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")
    assert now() >= 60
    await one.stop()


async def test_two_leaders_never_write_at_the_same_time_under_partitions():
    """Connections are cut and restored in turn; each leader writes as fast as it can."""
    api = MemoryApi()
    copies = [Replica(api, name) for name in ("one", "two", "three")]
    wrote: list[tuple[float, int, str]] = []

    async def live(copy: Replica) -> None:
        async def lead(leadership: Leadership) -> None:
            i = 0
            while True:
                i += 1
                await copy.write(f"{copy.name}-{leadership.token}-{i}")
                wrote.append((now(), leadership.token, copy.name))
                await asyncio.sleep(0.3)

        while True:
            try:
                await copy.elector.run(lead)
            except LeadershipLost:
                continue
            except Exception:
                await asyncio.sleep(1)

    tasks = [asyncio.create_task(live(copy)) for copy in copies]
    for turn in range(12):
        victim = copies[turn % 3]
        await asyncio.sleep(17)
        victim.link.cut = turn % 2 == 0
        victim.link.to_server = 0 if turn % 2 == 0 else 4
        await asyncio.sleep(23)
        victim.link.cut = False
        victim.link.to_server = 0
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    tokens = [token for _, token, _ in wrote]
    assert tokens == sorted(tokens), "an old leader wrote after a new one"
    assert len(set(tokens)) >= 4
    assert all(len({name for _, t, name in wrote if t == token}) == 1 for token in set(tokens)), (
        "two processes wrote with one token"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LeaderElectionTiming(lease_duration=10, renew_deadline=10),
            "greater than renew_deadline",
        ),
        (lambda: LeaderElectionTiming(renew_deadline=2), "greater than retry_period"),
        (lambda: LeaderElectionTiming(lease_duration=15.5), "whole seconds"),
        (lambda: LeaderElectionTiming(retry_period=0), "greater than retry_period"),
    ],
)
def test_invalid_timings_are_rejected(make: Callable[[], LeaderElectionTiming], message: str):
    with pytest.raises(ValueError, match=message):
        make()
