"""Which GPUs a pod is given: nothing that is in use, nothing worse than what it could have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import GpuAsk, Preference
from kilonova.scheduler.core.choosing import choose, insists, quality, rooms
from kilonova.scheduler.core.devices import (
    WHOLE,
    Choice,
    Gpu,
    Layout,
    Share,
    idle_devices,
    model_matches,
)
from kilonova.scheduler.core.mig_parts import known_geometry

NONE, OPTIMAL, REQUIRED, NUMA, PCIE = Preference
H100, A30 = known_geometry("H100-80GB"), known_geometry("A30-24GB")
FREE = [WHOLE] * 8
EMPTY = [0] * 8


def numbered(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))


def eight(port: int = 0, links: tuple[tuple[int, int, int], ...] = ()) -> Layout:
    """Two NUMA nodes of four devices, two behind each PCIe switch."""
    return Layout(
        tuple(
            Gpu(i, 81559, "NVIDIA-H100-80GB-HBM3", "Hopper", i // 4, f"s{i // 2}", port, H100)
            for i in range(8)
        ),
        links,
    )


SWITCHED = eight(port=900)
PAIRED = eight(links=((0, 1, 600), (2, 3, 600), (4, 5, 600), (6, 7, 600)))
PLAIN = eight()
ADA, LOVELACE = (Layout((Gpu(0, 24_000, "L4", name),)) for name in ("Ada", "ada-lovelace"))
CUBE = eight(
    links=(
        (0, 1, 50), (0, 2, 50), (0, 3, 100), (0, 4, 100), (1, 2, 100), (1, 3, 50), (1, 5, 100),
        (2, 3, 100), (2, 6, 50), (3, 7, 50), (4, 5, 50), (4, 6, 50), (4, 7, 100), (5, 6, 100),
        (5, 7, 50), (6, 7, 100),
    )
)  # fmt: skip
"""The hybrid cube mesh of eight V100."""
MESH = eight(links=tuple((a, b, 50) for a, b in combinations(range(8), 2)))
CHAIN = eight(links=((0, 1, 50), (1, 2, 100), (2, 3, 50)))


def given_to(choice: Choice | None) -> list[int] | None:
    return None if choice is None else [share.index for share in choice.shares]


def pick(layout: Layout, used: Sequence[int], ask: GpuAsk) -> list[int] | None:
    free = [0 if index in used else WHOLE for index in range(len(layout.gpus))]
    return given_to(choose(layout, free, [0] * len(free), ask))


@pytest.mark.parametrize(
    ("layout", "used", "ask", "devices"),
    [
        pytest.param(PLAIN, [], GpuAsk(1), [0], id="all alike: the lowest"),
        pytest.param(PLAIN, [0], GpuAsk(1), [1], id="what is broken already"),
        pytest.param(PLAIN, [0, 4, 5, 6], GpuAsk(1), [7], id="the last of a node, the rest whole"),
        pytest.param(PLAIN, [0, 1], GpuAsk(2), [2, 3], id="keeps the whole NUMA node"),
        pytest.param(PLAIN, [0], GpuAsk(2, preference=NUMA), [2, 3], id="near in a NUMA node"),
        pytest.param(PLAIN, [0, 1, 2], GpuAsk(2, preference=NUMA), [4, 5], id="one NUMA node left"),
        pytest.param(PLAIN, [0, 1], GpuAsk(4, preference=NUMA), [4, 5, 6, 7], id="all of a node"),
        pytest.param(PLAIN, [0, 3, 4], GpuAsk(2, preference=PCIE), [6, 7], id="one switch"),
        pytest.param(PLAIN, [0, 3, 4, 6], GpuAsk(2, preference=PCIE), [1, 2], id="no must"),
        pytest.param(PAIRED, [0], GpuAsk(2, preference=OPTIMAL), [2, 3], id="a bridged pair"),
        pytest.param(PAIRED, [0, 2, 4, 6], GpuAsk(2, preference=OPTIMAL), [1, 3], id="none left"),
        pytest.param(PAIRED, [0, 2, 4, 6], GpuAsk(2, preference=REQUIRED), None, id="no pair, no"),
        pytest.param(PAIRED, [], GpuAsk(4, preference=REQUIRED), None, id="pairs are no quad"),
        pytest.param(PAIRED, [0], GpuAsk(1, preference=REQUIRED), [1], id="alone needs no link"),
        pytest.param(PAIRED, [0], GpuAsk(1), [1], id="spares the pairs"),
        pytest.param(PAIRED, [0], GpuAsk(2, bandwidth=600), [2, 3], id="fast enough"),
        pytest.param(PAIRED, [], GpuAsk(2, bandwidth=601), None, id="not fast enough"),
        pytest.param(SWITCHED, [0, 5], GpuAsk(6, preference=REQUIRED), [1, 2, 3, 4, 6, 7]),
        pytest.param(SWITCHED, [], GpuAsk(8, bandwidth=900), [*range(8)], id="the whole port"),
        pytest.param(SWITCHED, [0], GpuAsk(8), None, id="too few"),
        pytest.param(CUBE, [], GpuAsk(2, preference=OPTIMAL), [2, 3], id="a double link"),
        pytest.param(CUBE, [], GpuAsk(4, preference=REQUIRED), [0, 1, 2, 3], id="a quad"),
        pytest.param(CUBE, [0], GpuAsk(4, preference=REQUIRED), [4, 5, 6, 7], id="the other quad"),
        pytest.param(CUBE, [0, 4], GpuAsk(4, preference=REQUIRED), None, id="no quad left"),
        pytest.param(Layout.of_unknown(4), [1], GpuAsk(2, preference=NUMA), [0, 2], id="unknown"),
        pytest.param(Layout.of_unknown(4), [], GpuAsk(2, preference=REQUIRED), None, id="no links"),
        pytest.param(Layout.of_unknown(40), [0], GpuAsk(2, preference=NUMA), [1, 2], id="many"),
        pytest.param(Layout.of_unknown(40), [], GpuAsk(2, bandwidth=1), None, id="many, no links"),
        pytest.param(Layout.of_unknown(0), [], GpuAsk(1), None, id="no devices"),
        pytest.param(PLAIN, [], GpuAsk(0), None, id="nothing asked for"),
        pytest.param(PLAIN, [], GpuAsk(1, models=("A100",)), None, id="another model"),
        pytest.param(PLAIN, [], GpuAsk(1, models=("A100", "h100")), [0], id="one of two models"),
        pytest.param(PLAIN, [], GpuAsk(1, architecture="hopper"), [0], id="architecture"),
        pytest.param(PLAIN, [], GpuAsk(1, architecture="Ampere"), None, id="another architecture"),
        pytest.param(ADA, [], GpuAsk(1, architecture="ada-lovelace"), [0], id="as labels say"),
        pytest.param(ADA, [], GpuAsk(1, architecture="Ada Lovelace"), [0], id="as people say"),
        pytest.param(LOVELACE, [], GpuAsk(1, architecture="Ada"), [0], id="as NVML says"),
        pytest.param(PLAIN, [], GpuAsk(1, memory=81560), None, id="too little memory"),
    ],
)  # fmt: skip
def test_whole_devices(
    layout: Layout, used: list[int], ask: GpuAsk, devices: list[int] | None
) -> None:
    assert pick(layout, used, ask) == devices


@pytest.mark.parametrize(
    ("layout", "devices", "preference", "score"),
    [
        (PLAIN, [0, 1], NONE, 50),
        (PLAIN, [3], NUMA, 100),
        (SWITCHED, [0, 7], OPTIMAL, 100),
        (PAIRED, [0, 1], OPTIMAL, 100),
        (CUBE, [0, 1], OPTIMAL, 50 + 50 * 50 / 900 + 20 + 10),
        (CUBE, [0, 3], OPTIMAL, 50 + 50 * 100 / 900 + 20 + 10),
        (CUBE, [0, 1, 2, 3], OPTIMAL, 50 + 50 * 187.5 / 900 + 20 + 10),
        (PLAIN, [0, 1], OPTIMAL, 70),
        (PLAIN, [0, 4], OPTIMAL, 50 + 5),
        (PLAIN, [0, 2], NUMA, 100),
        (PLAIN, [0, 4], NUMA, 50 + 5),
        (SWITCHED, [0, 4], NUMA, 89),
        (PLAIN, [0, 1], PCIE, 100),
        (PLAIN, [0, 2], PCIE, 50 + 10 + 10),
        (PAIRED, [0, 1, 2], PCIE, 50 + 10 + 10),
        (SWITCHED, [0, 2], PCIE, 79),
        (PLAIN, [0, 2, 4], PCIE, 50 + 10 * 2 / 3),
    ],
)
def test_scores(layout: Layout, devices: list[int], preference: Preference, score: float) -> None:
    rest = [index for index in range(8) if index not in devices]
    ask = GpuAsk(len(devices), preference=preference)
    free = [0 if index in rest else WHOLE for index in range(8)]
    choice = choose(layout, free, EMPTY, ask)
    assert choice is not None
    assert choice.score == pytest.approx(score, abs=1e-3)


def test_bandwidth_of_a_set_is_its_narrowest_cut() -> None:
    """Each of eight has 300 GB/s, but from four to the other four there are only 300 in all."""
    assert MESH.subsets.bandwidth[0b111] == 100
    assert MESH.subsets.bandwidth[0xFF] == 350
    assert CUBE.subsets.bandwidth[0b1111] == 250 * 3 / 4
    assert CUBE.subsets.bandwidth[0xFF] == 300 * 7 / 16
    assert SWITCHED.subsets.bandwidth[0xFF] == 900


@pytest.mark.parametrize(
    ("free", "masks", "ask", "given"),
    [
        pytest.param(FREE, EMPTY, GpuAsk(1, 500), [(0, 500)], id="the lowest"),
        pytest.param(
            [1000, 600, 500, 700, 0, 0, 0, 0], EMPTY, GpuAsk(1, 500), [(2, 500)], id="the tightest"
        ),
        pytest.param([400, 0, 0, 0, 0, 0, 0, 0], EMPTY, GpuAsk(1, 500), None, id="no room"),
        pytest.param(
            [400, 300, 1000, 0, 0, 0, 0, 0],
            EMPTY,
            GpuAsk(2, 300),
            [(0, 300), (1, 300)],
            id="distinct devices",
        ),
        pytest.param([1000] + [0] * 7, EMPTY, GpuAsk(2, 300), None, id="never one device twice"),
        pytest.param(FREE, [1] + [0] * 7, GpuAsk(1, 300), [(1, 300)], id="not on a split device"),
        pytest.param(FREE, EMPTY, GpuAsk(1, 0, memory=40000), [(0, 491)], id="as much as holds it"),
        pytest.param(FREE, EMPTY, GpuAsk(1, 0, memory=90000), None, id="no device holds it"),
    ],
)
def test_shares(
    free: list[int], masks: list[int], ask: GpuAsk, given: list[tuple[int, int]] | None
) -> None:
    choice = choose(PLAIN, free, masks, ask)
    found = None if choice is None else [(share.index, share.milli) for share in choice.shares]
    assert found == given


def test_unknown_memory_holds_no_share_by_memory() -> None:
    assert choose(Layout.of_unknown(1), [WHOLE], [0], GpuAsk(1, 0, memory=10)) is None


@pytest.mark.parametrize(
    ("masks", "ask", "given"),
    [
        pytest.param([0, 0], GpuAsk(1, profile="1g.10gb"), [(0, 6)], id="out of the way"),
        pytest.param([0, 0x40], GpuAsk(1, profile="1g.10gb"), [(1, 4)], id="where it is split"),
        pytest.param([0x0F, 0x40], GpuAsk(1, profile="3g.40gb"), [(0, 4)], id="loses the least"),
        pytest.param([0x0F, 0xFF], GpuAsk(1, profile="4g.40gb"), None, id="no place"),
        pytest.param([0x3F, 0x7F], GpuAsk(1, profile="1g.10gb"), [(0, 6)], id="the last place"),
        pytest.param([0, 0], GpuAsk(2, profile="3g.40gb"), [(0, 0), (0, 4)], id="on one device"),
        pytest.param(
            [0, 0], GpuAsk(3, profile="3g.40gb"), [(0, 0), (0, 4), (1, 4)], id="on two devices"
        ),
        pytest.param([0, 0], GpuAsk(5, profile="3g.40gb"), None, id="too many"),
        pytest.param([0, 0], GpuAsk(2, profile="1g.10gb+me"), [(0, 6), (1, 6)], id="one each"),
        pytest.param([0x140, 0xFF], GpuAsk(1, profile="1g.10gb+me"), None, id="extension is gone"),
        pytest.param([0x140, 0xFF], GpuAsk(1, profile="1g.10gb"), [(0, 4)], id="others go on"),
        pytest.param([0, 0], GpuAsk(1, profile="1g.5gb"), None, id="no such profile"),
    ],
)
def test_instances(masks: list[int], ask: GpuAsk, given: list[tuple[int, int]] | None) -> None:
    layout = Layout(PLAIN.gpus[:2])
    choice = choose(layout, [WHOLE, WHOLE], masks, ask)
    found = None if choice is None else [(share.index, share.start) for share in choice.shares]
    assert found == given


def test_demand_says_which_device_an_instance_spares() -> None:
    layout = Layout(PLAIN.gpus[:2])
    masks = [0x0F, 0x03]
    for wanted, index in (("3g.40gb", 1), ("2g.20gb", 0)):
        demand = ((wanted, 1.0),)
        ask = GpuAsk(1, profile="1g.10gb")
        assert given_to(choose(layout, [0, 0], masks, ask, demand=demand)) == [index]


def test_instances_go_only_to_devices_that_can_be_split_and_are_not_shared() -> None:
    layout = Layout(
        numbered([Gpu(0), Gpu(0, mig=H100), Gpu(0, mig=H100, healthy=False), PLAIN.gpus[0]])
    )
    ask = GpuAsk(1, profile="1g.10gb")
    assert given_to(choose(layout, [WHOLE] * 4, [0] * 4, ask)) == [1]
    assert given_to(choose(layout, [WHOLE, 500, WHOLE, WHOLE], [0] * 4, ask)) == [3]
    assert layout.instances("1g.10gb")[:, 0].tolist() == [0, 7, 0, 7]


def test_pods_that_follow_are_left_their_sets() -> None:
    """The fastest pair is in the middle: whoever takes it leaves none."""
    ask = GpuAsk(2, preference=REQUIRED)
    assert given_to(choose(CHAIN, FREE, EMPTY, ask)) == [1, 2]
    assert given_to(choose(CHAIN, FREE, EMPTY, ask, further=1)) == [0, 1]
    assert given_to(choose(CHAIN, FREE, EMPTY, ask, further=5)) == [0, 1]
    assert rooms([CHAIN], np.zeros(1, np.int32), np.array([0xFF]), ask).tolist() == [2]


@pytest.mark.parametrize(
    ("wanted", "model", "matches"),
    [
        ("H100", "NVIDIA-H100-80GB-HBM3", True),
        ("nvidia h100 80gb", "NVIDIA-H100-80GB-HBM3", True),
        ("H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", True),
        ("H10", "NVIDIA-H100-80GB-HBM3", False),
        ("H200", "NVIDIA-GH200-480GB", False),
        ("V100M16", "V100M16", True),
        ("H100", "", False),
    ],
)
def test_models_are_compared_by_words(wanted: str, model: str, matches: bool) -> None:
    assert model_matches(wanted, model) == matches


@pytest.mark.parametrize(
    ("gpus", "links", "complaint"),
    [
        ((Gpu(1),), (), "device 1 stands at position 0"),
        ((Gpu(0), Gpu(1)), ((1, 0, 5),), "link 1-0"),
        ((Gpu(0), Gpu(1)), ((0, 2, 5),), "link 0-2"),
        ((Gpu(0), Gpu(1)), ((0, 1, -5),), "-5 GB/s"),
        ((Gpu(0), Gpu(1)), ((0, 1, 5), (0, 1, 6)), "two links"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(
    gpus: tuple[Gpu, ...], links: tuple[tuple[int, int, int], ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Layout(gpus, links)


def test_nodes_of_one_kind_have_equal_layouts() -> None:
    named = Layout(tuple(replace(gpu, uuid=f"GPU-{gpu.index}") for gpu in PLAIN.gpus))
    assert named == PLAIN
    assert hash(named) == hash(PLAIN)


def test_idle_devices_are_those_that_nobody_uses() -> None:
    free = np.array([[1000, 999, 1000, 0], [1000, 1000, 0, 0]], np.int16)
    masks = np.array([[0, 0, 1, 0], [0, 0, 0, 0]], np.uint16)
    assert idle_devices(free, masks).tolist() == [0b0001, 0b0011]


def test_many_nodes_are_judged_by_tables() -> None:
    layouts = [Layout.of_unknown(0), PAIRED, SWITCHED, Layout.of_unknown(30)]
    ids = np.array([1, 2, 1, 0, 3], np.int32)
    idle = np.array([0b01010101, 0b01010101, 0b11, 0, 0b111])
    ask = GpuAsk(2, preference=REQUIRED)
    assert quality(layouts, ids, idle, ask).tolist() == [-1, 100, 100, -1, -1]
    assert rooms(layouts, ids, idle, ask).tolist() == [0, 2, 1, 0, 0]
    wish = GpuAsk(2)
    assert quality(layouts, ids, idle, wish).tolist() == [50, 50, 50, -1, 50]
    assert rooms(layouts, ids, idle, wish).tolist() == [2, 2, 1, 0, 1]
    assert quality(layouts, ids, idle, GpuAsk(1, 500)).tolist() == [100] * 5
    none = np.zeros(0, np.int32), np.zeros(0, np.int64)
    assert quality(layouts, *none, ask).tolist() == rooms(layouts, *none, ask).tolist() == []


@pytest.mark.parametrize(
    ("ask", "does"),
    [
        (GpuAsk(2), False),
        (GpuAsk(2, preference=NUMA), False),
        (GpuAsk(2, preference=REQUIRED), True),
        (GpuAsk(1, preference=REQUIRED), False),
        (GpuAsk(2, bandwidth=1), True),
        (GpuAsk(1, models=("H100",)), True),
        (GpuAsk(1, memory=1), True),
    ],
)
def test_who_insists_is_counted_by_sets(ask: GpuAsk, does: bool) -> None:
    assert insists(ask) == does


def test_sixteen_devices_are_looked_at_one_and_all() -> None:
    gpus = tuple(Gpu(i, numa=i // 8, pcie=f"s{i // 4}", port=900) for i in range(16))
    layout = Layout(gpus)
    assert pick(layout, [0], GpuAsk(8, preference=NUMA)) == [*range(8, 16)]
    assert pick(layout, [0, 9], GpuAsk(4, preference=PCIE)) == [4, 5, 6, 7]
    ask = GpuAsk(4, preference=REQUIRED)
    idle = np.array([(1 << 16) - 1, 0b111])
    assert rooms([layout], np.zeros(2, np.int32), idle, ask).tolist() == [4, 0]
    ring = Layout(
        gpus=tuple(Gpu(i) for i in range(16)), links=tuple((i, i + 1, 50) for i in range(15))
    )
    assert pick(ring, [0, 1, 3], GpuAsk(2, bandwidth=50)) == [4, 5]


# What must always hold, on any devices.

preferences = st.sampled_from(list(Preference))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Up to six devices, joined at random."""
    count = draw(st.integers(1, 6))
    switched = draw(st.booleans())
    gpus = [
        Gpu(
            0,
            memory=draw(st.sampled_from([0, 40960, 81920])),
            numa=draw(st.integers(-1, 1)),
            pcie=draw(st.sampled_from(["", "a", "b"])),
            port=draw(st.sampled_from([0, 600, 900])) if switched else 0,
            mig=draw(st.sampled_from([None, H100, A30])),
            healthy=draw(st.sampled_from([True, True, True, False])),
        )
        for _ in range(count)
    ]
    speeds = st.sampled_from([0, 25, 50, 100])
    links = [(a, b, draw(speeds)) for a, b in combinations(range(count), 2)]
    return Layout(numbered(gpus), tuple(link for link in links if link[2]))


asks = st.builds(
    GpuAsk,
    count=st.integers(1, 4),
    milli=st.sampled_from([WHOLE, WHOLE, WHOLE, 100, 500]),
    memory=st.sampled_from([0, 40960]),
    preference=preferences,
    bandwidth=st.sampled_from([0, 0, 25, 50, 700]),
) | st.builds(
    GpuAsk,
    count=st.integers(1, 4),
    profile=st.sampled_from(["1g.10gb", "1g.10gb+me", "3g.40gb", "1g.6gb", "4g.24gb"]),
)
states = st.lists(
    st.sampled_from([(WHOLE, 0), (WHOLE, 0), (0, 0), (500, 0), (WHOLE, 0x40), (WHOLE, 0x10F)]),
    min_size=6,
    max_size=6,
)


def slow_bandwidth(layout: Layout, devices: Sequence[int]) -> float:
    if len(devices) < 2:
        return float("inf")
    ports = [layout.gpus[index].port for index in devices]
    if all(ports):
        return min(ports)
    return min(
        sum(
            speed
            for a, b, speed in layout.links
            if {a, b} <= {*devices} and (a in part) != (b in part)
        )
        * (len(devices) - 1)
        / (size * (len(devices) - size))
        for size in range(1, len(devices))
        for part in combinations(devices, size)
    )


def slow_nearness(layout: Layout, a: int, b: int) -> float:
    one, other = layout.gpus[a], layout.gpus[b]
    if (one.port and other.port) or any(link[:2] == (a, b) for link in layout.links):
        return 1
    if one.pcie and one.pcie == other.pcie:
        return 0.75
    return 0.5 if one.numa >= 0 and one.numa == other.numa else 0


def slow_score(layout: Layout, devices: Sequence[int], ask: GpuAsk) -> float | None:
    """The score of a set before it is cut off at 100, by the words of the specification."""
    if len(devices) == 1:
        return 100
    near = min(slow_nearness(layout, a, b) for a, b in combinations(devices, 2))
    speed = slow_bandwidth(layout, devices)
    if speed < ask.bandwidth or (ask.preference is REQUIRED and near < 1):
        return None
    numas = [layout.gpus[index].numa for index in devices]
    switches = [layout.gpus[index].pcie for index in devices]
    shared = max((numas.count(numa) for numa in numas if numa >= 0), default=0)
    rest = 20 * near + 10 * shared / len(devices)
    more = 50 * min(speed / 900, 1) + rest
    match ask.preference:
        case Preference.NONE:
            return 50
        case Preference.NVLINK_OPTIMAL | Preference.NVLINK_REQUIRED:
            return 50 + more if near == 1 else min(70, 50 + rest)
        case Preference.SAME_NUMA:
            return 90 + more if shared == len(devices) else min(89, 50 + more)
        case Preference.SAME_PCIE_SWITCH:
            met = bool(switches[0]) and len({*switches}) == 1
            return 80 + more if met else min(79, 50 + more)


def able_sets(layout: Layout, free: Sequence[int], ask: GpuAsk) -> Iterator[tuple[int, ...]]:
    suits = [i for i in free if layout.gpus[i].healthy and layout.gpus[i].memory >= ask.memory]
    for devices in combinations(suits, ask.count):
        if slow_score(layout, devices, ask) is not None:
            yield devices


@settings(max_examples=400, deadline=None)
@given(layouts(), states, asks)
def test_what_is_given_is_free_and_nothing_better_was(
    layout: Layout, state: list[tuple[int, int]], ask: GpuAsk
) -> None:
    free, masks = [milli for milli, _ in state], [mask for _, mask in state]
    count = len(layout.gpus)
    choice = choose(layout, free[:count], masks[:count], ask)
    again = Layout(layout.gpus, layout.links)
    assert choose(again, free[:count], masks[:count], ask) == choice
    idle = [i for i in range(count) if free[i] == WHOLE and not masks[i]]
    if ask.whole:
        scores = [slow_score(layout, devices, ask) for devices in able_sets(layout, idle, ask)]
        best = max((score for score in scores if score is not None), default=None)
        assert (choice is None) == (best is None)
        if choice is not None and best is not None:
            chosen = [share.index for share in choice.shares]
            assert len({*chosen} & {*idle}) == ask.count
            assert slow_score(layout, chosen, ask) == pytest.approx(best, abs=2e-3)
            assert choice.score == pytest.approx(min(best, 100), abs=2e-3)
        free_set = np.array([sum(1 << index for index in idle)])
        judged = quality([layout], np.zeros(1, np.int32), free_set, ask)
        assert judged.tolist() == [-1.0 if choice is None else choice.score]
    elif choice is not None:
        assert len(choice.shares) == ask.count
        for share in choice.shares:
            gpu = layout.gpus[share.index]
            assert gpu.healthy
            if ask.profile:
                assert gpu.mig is not None
                assert share.start in gpu.mig.starts(masks[share.index], ask.profile)
                masks[share.index] |= share.mask
            else:
                assert masks[share.index] == 0
                assert share.milli == ask.milli <= free[share.index]
                free[share.index] = 0


@settings(max_examples=200, deadline=None)
@given(layouts(), st.integers(0, 63), st.integers(1, 3), preferences, st.sampled_from([0, 50]))
def test_as_many_pods_as_there_is_room_for_are_given_devices(
    layout: Layout, idle: int, count: int, preference: Preference, bandwidth: int
) -> None:
    ask = GpuAsk(count, preference=preference, bandwidth=bandwidth)
    devices = [index for index in range(len(layout.gpus)) if idle >> index & 1]
    free_set = np.array([sum(1 << index for index in devices)])
    room = int(rooms([layout], np.zeros(1, np.int32), free_set, ask)[0])

    def most(left: Sequence[int]) -> int:
        sets = able_sets(layout, left, ask)
        return max((1 + most([i for i in left if i not in taken]) for taken in sets), default=0)

    assert room == most(devices)
    free = [WHOLE if index in devices else 0 for index in range(len(layout.gpus))]
    for further in reversed(range(room)):
        choice = choose(layout, free, [0] * len(free), ask, further=further)
        assert choice is not None
        for share in choice.shares:
            assert share == Share(share.index)
            assert free[share.index] == WHOLE
            free[share.index] = 0
    assert choose(layout, free, [0] * len(free), ask) is None
