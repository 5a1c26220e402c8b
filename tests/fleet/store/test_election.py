"""The election of the manager: one leader, rising epochs, and stores that are replaced. Virtual
time."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import msgspec
import pytest

from kilonova.fleet.documents import DESIRED, FLEET, OBSERVED, Desired, FleetRecord, Observed
from kilonova.fleet.store import FleetStore, reclaim_store
from kilonova.fleet.store.epochs import build_epoch, generation_of
from kilonova.fleet.store.lease import KEY
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.election import LeadershipLost
from tests.fleet.store.candidates import Candidate, Member, Regions, now
from tests.fleet.store.stores import MemoryStore

pytestmark = pytest.mark.looptime

LEASE = 15.0
THREE = "s3://a,s3://b,s3://c"


@pytest.fixture
async def regions() -> Regions:
    return Regions()


@pytest.fixture
async def candidates() -> AsyncGenerator[list[Candidate]]:
    """Those of a test, stopped at its end."""
    candidates: list[Candidate] = []
    yield candidates
    for each in candidates:
        await each.stop()


def read_record(regions: Regions, bucket: str = "a") -> FleetRecord:
    return msgspec.json.decode(regions.bucket(bucket).objects["fleet.json"], type=FleetRecord)


@pytest.mark.parametrize("endpoint", ["s3://a", THREE])
@pytest.mark.parametrize("age", [0.0, 0.7, 1.4, 33.3])
async def test_successor_leads_within_two_seconds_after_the_lease(
    regions: Regions, candidates: list[Candidate], endpoint: str, age: float
) -> None:
    one = Candidate(regions, "one", endpoint)
    candidates.append(one)
    await one.leading.wait()
    await asyncio.sleep(0.3)
    two = Candidate(regions, "two", endpoint, skew=timedelta(hours=-5))
    candidates.append(two)
    for each in (one, two):
        for name in "abc":
            each.link(name).delay = 0.05
    await asyncio.sleep(20 + age)
    died = now()
    one.die()
    await two.leading.wait()
    assert LEASE - 2 <= now() - died <= LEASE + 2
    assert regions.claims == [("one", build_epoch(1, 0)), ("two", build_epoch(1, 1))]


async def test_successor_of_a_stopped_leader_leads_at_once(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one")
    await one.leading.wait()
    two = Candidate(regions, "two")
    candidates.append(two)
    await asyncio.sleep(5)
    stopped = now()
    await one.stop()
    await two.leading.wait()
    assert now() - stopped <= 2


async def test_paused_leader_that_wakes_is_refused(
    regions: Regions, candidates: list[Candidate]
) -> None:
    member = Member()
    one, two = Candidate(regions, "one"), Candidate(regions, "two")
    candidates += [one, two]
    await asyncio.sleep(10)
    leader, other = (one, two) if one.leading.is_set() else (two, one)
    term = leader.election.term
    assert term is not None
    assert await member.apply(term.epoch)
    leader.link("a").hanging = True
    await other.leading.wait()
    successor = other.election.term
    assert successor is not None
    assert await member.apply(successor.epoch)
    leader.link("a").hanging = False
    with pytest.raises(LeadershipLost):
        await term.store.write(DESIRED, Desired(cluster="m", epoch=term.epoch, sequence=2), None)
    assert not await member.apply(term.epoch), "not even if it went around the fence of its process"
    assert member.applied == [term.epoch, successor.epoch]


async def test_late_claim_of_a_deposed_leader_fails(
    regions: Regions, candidates: list[Candidate]
) -> None:
    """It is elected, and paused before it claims its epoch."""
    waking = asyncio.Event()
    one = Candidate(regions, "one")

    async def pause() -> int:
        await waking.wait()
        return 0

    one.election._find_accepted_epoch = pause  # pyright: ignore[reportPrivateUsage]
    candidates.append(one)
    await asyncio.sleep(1)
    one.link("a").hanging = True
    two = Candidate(regions, "two")
    candidates.append(two)
    await two.leading.wait()
    one.link("a").hanging = False
    waking.set()
    await asyncio.sleep(60)
    assert [name for name, _ in regions.claims] == ["two"]
    assert read_record(regions).holder == "two"


async def test_candidate_whose_hub_fails_leaves_the_lead_to_others(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one")

    async def fail() -> int:
        raise ConnectionFailed("the API server was not reached")

    one.election._find_accepted_epoch = fail  # pyright: ignore[reportPrivateUsage]
    candidates.append(one)
    await asyncio.sleep(1)
    two = Candidate(regions, "two")
    candidates.append(two)
    await asyncio.wait_for(two.leading.wait(), 20)
    assert regions.claims == [("two", regions.epochs[0])]


async def test_deleted_lease_begins_a_generation(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one")
    await one.leading.wait()
    await one.stop()
    del regions.bucket("a").objects[KEY]
    two = Candidate(regions, "two")
    candidates.append(two)
    await two.leading.wait()
    assert regions.epochs == [build_epoch(1, 0), build_epoch(2, 0)]


async def test_lost_region_of_three_changes_nothing(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", THREE)
    candidates.append(one)
    await one.leading.wait()
    one.link("b").hanging = True
    await asyncio.sleep(300)
    assert one.leading.is_set()
    two = Candidate(regions, "two", THREE)
    two.link("b").cut = True
    candidates.append(two)
    await asyncio.sleep(5)
    one.die()
    died = now()
    await two.leading.wait()
    assert now() - died <= LEASE + 2
    two.link("b").cut = False
    two.link("a").cut = True
    await asyncio.sleep(300)
    assert two.leading.is_set(), "the store that returned is used again"
    assert len(regions.claims) == 2


async def test_lost_region_of_one_leaves_no_leader_until_it_returns(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one, two = Candidate(regions, "one"), Candidate(regions, "two")
    candidates += [one, two]
    await asyncio.sleep(10)
    for each in (one, two):
        each.link("a").cut = True
    await asyncio.sleep(10)
    assert not one.leading.is_set()
    assert not two.leading.is_set()
    await asyncio.sleep(600)
    assert len(regions.claims) == 1
    for each in (one, two):
        each.link("a").cut = False
    await asyncio.sleep(20)
    assert [one.leading.is_set(), two.leading.is_set()].count(True) == 1
    assert regions.epochs[0] < regions.epochs[1]


async def fill(store: FleetStore) -> None:
    await store.write(DESIRED, Desired(cluster="m", epoch=1, sequence=1), None)
    await store.write(OBSERVED, Observed(cluster="m", sequence=7), None)


async def test_changed_endpoint_takes_the_state_along(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    two = Candidate(regions, "two", "s3://a")
    candidates += [one, two]
    await fill(one.open_store("s3://a"))
    await asyncio.sleep(10)
    for each in (one, two):
        each.endpoint.change(THREE)
        await asyncio.sleep(30)
    assert [one.leading.is_set(), two.leading.is_set()].count(True) == 1
    copied = await one.open_store(THREE).read(OBSERVED, "m")
    assert copied is not None
    assert copied.document.sequence == 7
    assert await one.open_store(THREE).read(DESIRED, "m") is not None
    assert regions.epochs == sorted(set(regions.epochs))
    assert generation_of(regions.epochs[-1]) == 2
    assert read_record(regions, "a").moved_to == THREE
    record = await one.open_store(THREE).read(FLEET)
    assert record is not None
    assert record.document.copy_from == ""


async def test_manager_with_the_former_endpoint_steps_down_and_stays_down(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    two = Candidate(regions, "two", "s3://a")
    candidates += [one, two]
    await asyncio.sleep(10)
    leader, other = (one, two) if one.leading.is_set() else (two, one)
    other.endpoint.change("s3://b")
    await asyncio.sleep(60)
    assert other.leading.is_set()
    assert not leader.leading.is_set()
    late = Candidate(regions, "late", "s3://a")
    candidates.append(late)
    await asyncio.sleep(60)
    assert "the store s3://a was replaced by s3://b; correct" in late.election.problem
    assert len(regions.claims) == 2
    late.endpoint.change("s3://b")
    leader.endpoint.change("s3://b")
    await other.stop()
    await asyncio.sleep(30)
    assert len(regions.claims) == 3
    assert generation_of(regions.epochs[-1]) == 2


async def test_lost_endpoint_is_replaced_without_its_state(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    candidates.append(one)
    await one.leading.wait()
    await fill(one.open_store("s3://a"))
    one.link("a").hanging = True
    await asyncio.sleep(100)
    one.endpoint.change("s3://b")
    changed = now()
    await one.leading.wait()
    assert now() - changed < 60
    assert [generation_of(each) for each in regions.epochs] == [1, 2]
    assert await one.open_store("s3://b").read(OBSERVED, "m") is None


async def test_restarted_manager_learns_the_epoch_from_the_hub(
    regions: Regions, candidates: list[Candidate]
) -> None:
    """The former store is lost, and so is the process that knew it."""
    regions.accepted = build_epoch(4, 17)
    one = Candidate(regions, "one", "s3://b")
    candidates.append(one)
    await one.leading.wait()
    assert regions.epochs == [build_epoch(5, 0)]


async def test_emptied_store_learns_the_epoch_from_members(
    regions: Regions, candidates: list[Candidate]
) -> None:
    """What the hub knew is lost, too."""
    one = Candidate(regions, "one", "s3://a")
    candidates.append(one)
    report = Observed(cluster="m", sequence=1, accepted_epoch=build_epoch(3, 7))
    await one.open_store("s3://a").write(OBSERVED, report, None)
    await one.leading.wait()
    assert regions.epochs == [build_epoch(4, 0)]


async def test_store_that_members_have_left_is_not_led_from(
    regions: Regions, candidates: list[Candidate]
) -> None:
    """It could not be marked, because it was not reachable when it was replaced."""
    one = Candidate(regions, "one", "s3://a")
    await one.leading.wait()
    await one.stop()
    regions.accepted = build_epoch(2, 3)
    late = Candidate(regions, "late", "s3://a")
    candidates.append(late)
    await asyncio.sleep(60)
    assert len(regions.claims) == 1
    assert "members accepted epoch 2.3, its last is 1.0" in late.election.problem


async def test_reclaimed_store_is_led_from_in_the_next_generation(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    candidates.append(one)
    assert not await reclaim_store(one.open_store("s3://b")), "there has been no leader"
    await one.leading.wait()
    one.endpoint.change("s3://b")
    await asyncio.sleep(40)
    await one.stop()
    regions.accepted = regions.epochs[-1]
    late = Candidate(regions, "late", "s3://a")
    candidates.append(late)
    await asyncio.sleep(40)
    assert late.election.problem.endswith("kilonova fleet endpoint reclaim")
    assert await reclaim_store(late.open_store("s3://a"))
    await late.leading.wait()
    assert [generation_of(each) for each in regions.epochs] == [1, 2, 3]
    assert not read_record(regions).reclaimed
    assert not late.election.problem


async def test_former_store_can_be_taken_back_into_use(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    candidates.append(one)
    for endpoint in ("s3://b", "s3://a", "s3://b"):
        await one.leading.wait()
        regions.accepted = regions.epochs[-1]
        one.endpoint.change(endpoint)
        await asyncio.sleep(40)
    assert one.leading.is_set()
    assert [generation_of(each) for each in regions.epochs] == [1, 2, 3, 4]


async def test_crash_between_claim_and_copy_loses_nothing(
    regions: Regions, candidates: list[Candidate]
) -> None:
    one = Candidate(regions, "one", "s3://a")
    candidates.append(one)
    await one.leading.wait()
    await fill(one.open_store("s3://a"))
    writes = 0
    put = MemoryStore.put

    async def crash_after_claim(self: MemoryStore, key: str, *rest: object) -> object:
        nonlocal writes
        if self.name == "s3://b" and key.startswith("observed/"):
            writes += 1
            if writes == 1:
                one.die()
                await asyncio.Event().wait()
        return await put(self, key, *rest)  # type: ignore[arg-type]  # pyright: ignore

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "put", crash_after_claim)
        one.endpoint.change("s3://b")
        await asyncio.sleep(40)
        assert read_record(regions, "b").copy_from == "s3://a"
        two = Candidate(regions, "two", "s3://b")
        candidates.append(two)
        await two.leading.wait()
    assert await two.open_store("s3://b").read(OBSERVED, "m") is not None
    assert read_record(regions, "b").copy_from == ""
    assert [name for name, _ in regions.claims] == ["one", "two"]
