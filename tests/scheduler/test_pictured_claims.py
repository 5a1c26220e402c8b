"""Devices of drivers and claims to them, in a picture and in its file."""

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.claimbook import Pool, Written
from kilonova.scheduler.core.claims import (
    Allocation,
    Attribute,
    Capacity,
    ClaimAsk,
    Counter,
    Device,
    DeviceId,
    Given,
    Option,
)
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang, Member, single
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import read, written
from kilonova.scheduler.picture import Picture, picture_of
from tests.scheduler.pictures import HERE, node

DRIVER = "gpu.example.com"
COUNTER = Counter(DRIVER, "pool", "card", "memory")


def device(name: str, model: str) -> Device:
    return Device(
        DeviceId(DRIVER, "pool", name),
        "a",
        attributes={"model": Attribute("string", model)},
        capacity={"memory": Capacity(80 * 10**9)},
        consumes=((COUNTER, 1),),
    )


def claiming(name: str, model: str) -> Gang:
    selector = f"device.attributes['{DRIVER}'].model == '{model}'"
    ask = ClaimAsk(((Option("gpu", (selector,)),),))
    shape = Shape((("cpu", 100), ("pods", 1)), claims=(ask,))
    return single(Member(f"ns/{name}", shape, claims=(f"ns/{name}-gpu",)))


def picture() -> Picture:
    """Two devices of a model, of which one is taken, and one of another."""
    cluster = Cluster()
    cluster.snapshot.put_node(node("a"))
    devices = (device("d0", "big"), device("d1", "big"), device("d2", "small"))
    given = Allocation((Given("gpu", devices[0].id),), "a")
    waiting = [claiming("first", "big"), claiming("second", "big"), claiming("third", "small")]
    return picture_of(
        cluster,
        waiting,
        [],
        Policy(),
        10.0,
        pools={(DRIVER, "pool"): Pool(devices, {COUNTER: 3}, nodes=frozenset({"a"}))},
        claims={"ns/taken": Written(given, frozenset({"ns/other"}))},
    )


def test_devices_are_given_out_after_a_picture_as_before():
    before = picture()
    again = read(written(before), HERE)
    assert again == before
    told = replay(again)
    assert told == replay(before)
    assert [each.gang for each in told.placed] == ["ns/first", "ns/third"]
    assert [each.gang for each in told.refused] == ["ns/second"]
