"""Elections on a Lease: one leader at a time, and a deposed one writes nothing. Virtual time."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.kube.client import Client
from kilonova.kube.election import Elector, FencedTransport, Leadership, LeadershipLost, Timing
from kilonova.kube.resource import plain
from tests.kube.memory_api import Link, MemoryApi

pytestmark = pytest.mark.looptime

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/operator"
CONFIGMAPS = plain("", "v1", "configmaps", "ConfigMap", True)
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Copy:
    """One copy of a process: its link, its clock on the wall, and what it did as leader."""

    api: MemoryApi
    name: str
    skew: timedelta = timedelta()
    terms: list[int] = field(default_factory=list[int])
    led: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.link = Link(self.api)
        self.elector = Elector(
            Client(self.link),
            "operator",
            "system",
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


async def test_the_first_candidate_creates_the_lease_and_leads():
    api = MemoryApi()
    one = Copy(api, "one")
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


async def test_the_leader_renews_every_two_seconds_and_keeps_its_acquire_time():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(60.5)
    assert lease(api)["renewTime"] == "2026-05-01T00:01:00.000000Z"
    assert lease(api)["acquireTime"] == "2026-05-01T00:00:00.000000Z"
    assert len(api.writes) == 31
    assert all(re.fullmatch(r".*\.\d{6}Z", w["spec"]["renewTime"]) for _, _, w in api.writes)
    await one.stop()


async def test_of_two_candidates_that_start_together_one_leads():
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two")
    one.link.from_server = two.link.from_server = 0.1
    one.start()
    two.start()
    await asyncio.sleep(60)
    assert [one.leading.is_set(), two.leading.is_set()].count(True) == 1
    assert one.elector.holder == two.elector.holder
    await one.stop()
    await two.stop()


@pytest.mark.parametrize("skew", [timedelta(), timedelta(hours=-3), timedelta(hours=3)])
async def test_a_dead_leader_is_followed_after_the_lease_expired_whatever_the_clocks_say(skew):
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two", skew)
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(21)
    one.link.cut = True
    await two.leading.wait()
    last_renewal = 20.0
    assert last_renewal + 15 <= now() <= last_renewal + 15 + 2 * 2
    assert two.terms == [1]
    with pytest.raises(LeadershipLost):
        await one.end()
    assert one.led[0][1] <= last_renewal + 10, "it stepped down before the other could lead"
    await two.stop()


async def test_a_skewed_clock_does_not_depose_a_living_leader():
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two", timedelta(days=1))
    one.start()
    await one.leading.wait()
    two.start()
    await asyncio.sleep(120)
    assert (one.terms, two.terms) == ([0], [])
    await one.stop()
    await two.stop()


async def test_a_graceful_stop_hands_over_at_once():
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two")
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


async def test_the_lease_is_renewed_while_the_work_winds_down_and_released_after_it():
    api = MemoryApi()
    holders: list[str] = []

    async def slow_to_stop(leadership: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(30)
            leadership.check()
            holders.append(lease(api)["holderIdentity"])

    one = Copy(api, "one")
    task = asyncio.create_task(one.elector.run(slow_to_stop))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holders == ["one"]
    assert lease(api)["holderIdentity"] == ""


async def test_a_leader_whose_work_fails_releases_and_raises_the_failure():
    api = MemoryApi()

    async def fails(leadership: Leadership) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Copy(api, "one").elector.run(fails)
    assert lease(api)["holderIdentity"] == ""


async def test_the_work_returning_ends_the_run():
    api = MemoryApi()

    async def returns(leadership: Leadership) -> None: ...

    one = Copy(api, "one")
    await one.elector.run(returns)
    assert one.elector.leadership is None


async def test_a_candidate_waits_while_the_api_is_away_and_leads_when_it_is_back():
    api = MemoryApi()
    one = Copy(api, "one")
    one.link.cut = True
    one.start()
    await asyncio.sleep(300)
    one.link.cut = False
    await one.leading.wait()
    assert now() < 303
    await one.stop()


async def test_a_short_outage_does_not_cost_the_leadership():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(5)
    one.link.cut = True
    await asyncio.sleep(7)
    one.link.cut = False
    await asyncio.sleep(60)
    assert one.led == []
    await one.stop()


async def test_a_slow_api_is_endured_below_the_deadline():
    api = MemoryApi()
    one = Copy(api, "one")
    one.link.to_server = one.link.from_server = 1.5
    one.start()
    await asyncio.sleep(120)
    assert one.terms == [0]
    assert one.led == []
    await one.stop()


async def test_answers_that_get_lost_do_not_confuse_the_leader():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(5)
    one.link.from_server = 60
    await asyncio.sleep(4)
    one.link.from_server = 0
    await asyncio.sleep(30)
    assert one.led == []
    assert lease(api)["leaseTransitions"] == 0
    await one.stop()


async def test_a_hanging_api_ends_the_leadership_on_time():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(4.5)
    one.link.to_server = 1e6
    with pytest.raises(LeadershipLost, match="system/operator is lost: it was not renewed"):
        await one.end()
    assert now() == pytest.approx(4 + 10)


async def test_a_leader_that_sees_another_holder_steps_down_at_once():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(5)
    api.objects[PATH]["spec"]["holderIdentity"] = "usurper"
    api.objects[PATH]["metadata"]["resourceVersion"] = "1000"
    with pytest.raises(LeadershipLost, match="usurper holds it"):
        await one.end()
    assert now() == pytest.approx(6)
    assert lease(api)["holderIdentity"] == "usurper"


async def test_labels_put_on_the_lease_by_others_are_kept_and_cost_nothing():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(5)
    api.objects[PATH]["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "1000"}
    await asyncio.sleep(30)
    assert one.led == []
    assert api.objects[PATH]["metadata"]["labels"] == {"a": "b"}
    await one.stop()


async def test_a_deleted_lease_is_made_again_with_its_token():
    api = MemoryApi()
    one = Copy(api, "one")
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


async def test_a_candidate_respects_a_deleted_lease_until_it_would_have_expired():
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two")
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


async def test_a_second_term_of_the_same_process_has_a_greater_token():
    api = MemoryApi()
    one = Copy(api, "one")
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


async def test_changes_of_leadership_are_told():
    api = MemoryApi()
    told: list[bool] = []
    elector = Elector(Client(Link(api)), "operator", "system", clock=now, changed=told.append)

    async def returns(leadership: Leadership) -> None: ...

    await elector.run(returns)
    assert told == [True, False]
    assert elector.identity


# --- fencing


async def test_only_the_leader_writes():
    api = MemoryApi()
    one, two = Copy(api, "one"), Copy(api, "two")
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


async def test_a_leader_that_was_blocked_writes_nothing_even_before_its_loop_notices():
    blocked = 0.0
    api = MemoryApi()
    link = Link(api)
    elector = Elector(Client(link), "operator", "system", clock=lambda: now() + blocked)
    client = Client(FencedTransport(link, lambda: elector.leadership))
    valid: list[bool] = []

    async def lead(leadership: Leadership) -> None:
        nonlocal blocked
        valid.append(leadership.is_valid())
        blocked = 10.0  # as if this callback had computed for ten seconds
        valid.append(leadership.is_valid())
        await client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")

    with pytest.raises(LeadershipLost):
        await elector.run(lead)
    assert valid == [True, False]
    assert [path for _, path, _ in api.writes] == [PATH]


async def test_a_write_under_way_is_cut_off_when_another_may_lead():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await asyncio.sleep(9.5)
    one.link.to_server = 1e6
    with pytest.raises(LeadershipLost, match="still under way"):
        await one.write()
    assert now() == pytest.approx(8 + 15)
    with pytest.raises(LeadershipLost):
        await one.end()


async def test_a_slow_write_goes_on_while_the_leadership_is_renewed():
    api = MemoryApi()
    one = Copy(api, "one")
    one.start()
    await one.leading.wait()
    slow = Link(api, to_server=60)
    fenced = FencedTransport(slow, lambda: one.elector.leadership)
    await Client(fenced).create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default")
    assert now() >= 60
    await one.stop()


async def test_two_leaders_never_write_at_the_same_time_under_partitions():
    """Links are cut and healed in turn; each leader writes as fast as it may."""
    api = MemoryApi()
    copies = [Copy(api, name) for name in ("one", "two", "three")]
    wrote: list[tuple[float, int, str]] = []

    async def live(copy: Copy) -> None:
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
        (lambda: Timing(lease_duration=10, renew_deadline=10), "greater than renew_deadline"),
        (lambda: Timing(renew_deadline=2), "greater than retry_period"),
        (lambda: Timing(lease_duration=15.5), "whole seconds"),
        (lambda: Timing(retry_period=0), "greater than retry_period"),
    ],
)
def test_timings_that_cannot_work_are_refused(make: Callable[[], Timing], message: str):
    with pytest.raises(ValueError, match=message):
        make()
