"""Which GPUs a pod gets: none that is in use, and the best of those that are free."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.catalog.mig import geometry_named
from kilonova.scheduler.core.gpu.layout import (
    MILLI_PER_GPU,
    Gpu,
    GpuLayout,
    GpuSelection,
    GpuShare,
    idle_devices,
    model_matches,
)
from kilonova.scheduler.core.gpu.selection import (
    best_scores,
    count_fitting_pods,
    has_device_requirements,
    select_devices,
)
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest
from tests.harness.campaigns import limit_examples

NONE, OPTIMAL, REQUIRED, NUMA, PCIE = GpuPreference
H100, A30 = geometry_named("H100-80GB"), geometry_named("A30-24GB")
FREE = [MILLI_PER_GPU] * 8
EMPTY = [0] * 8


def numbered(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))


def eight(port: int = 0, links: tuple[tuple[int, int, int], ...] = ()) -> GpuLayout:
    """Two NUMA nodes of four devices, two behind each PCIe switch."""
    return GpuLayout(
        tuple(
            Gpu(i, 81559, "NVIDIA-H100-80GB-HBM3", "Hopper", i // 4, f"s{i // 2}", port, H100)
            for i in range(8)
        ),
        links,
    )


SWITCHED = eight(port=900)
PAIRED = eight(links=((0, 1, 600), (2, 3, 600), (4, 5, 600), (6, 7, 600)))
PLAIN = eight()
ADA, LOVELACE = (GpuLayout((Gpu(0, 24_000, "L4", name),)) for name in ("Ada", "ada-lovelace"))
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


def device_indices(choice: GpuSelection | None) -> list[int] | None:
    return None if choice is None else [share.index for share in choice.shares]


def select_indices(
    layout: GpuLayout, used: Sequence[int], gpu_request: GpuRequest
) -> list[int] | None:
    free = [0 if index in used else MILLI_PER_GPU for index in range(len(layout.gpus))]
    return device_indices(select_devices(layout, free, [0] * len(free), gpu_request))


@pytest.mark.parametrize(
    ("layout", "used", "gpu_request", "devices"),
    [
        pytest.param(PLAIN, [], GpuRequest(1), [0], id="equal devices: lowest index"),
        pytest.param(PLAIN, [0], GpuRequest(1), [1], id="partly used switch first"),
        pytest.param(
            PLAIN, [0, 4, 5, 6], GpuRequest(1), [7], id="last of a NUMA node, others stay whole"
        ),
        pytest.param(PLAIN, [0, 1], GpuRequest(2), [2, 3], id="keeps the whole NUMA node"),
        pytest.param(
            PLAIN, [0], GpuRequest(2, preference=NUMA), [2, 3], id="same switch within a NUMA node"
        ),
        pytest.param(
            PLAIN, [0, 1, 2], GpuRequest(2, preference=NUMA), [4, 5], id="one NUMA node left"
        ),
        pytest.param(
            PLAIN, [0, 1], GpuRequest(4, preference=NUMA), [4, 5, 6, 7], id="whole NUMA node"
        ),
        pytest.param(PLAIN, [0, 3, 4], GpuRequest(2, preference=PCIE), [6, 7], id="one switch"),
        pytest.param(
            PLAIN, [0, 3, 4, 6], GpuRequest(2, preference=PCIE), [1, 2], id="preference not met"
        ),
        pytest.param(PAIRED, [0], GpuRequest(2, preference=OPTIMAL), [2, 3], id="a bridged pair"),
        pytest.param(
            PAIRED, [0, 2, 4, 6], GpuRequest(2, preference=OPTIMAL), [1, 3], id="no pair left"
        ),
        pytest.param(
            PAIRED,
            [0, 2, 4, 6],
            GpuRequest(2, preference=REQUIRED),
            None,
            id="required pair missing",
        ),
        pytest.param(
            PAIRED, [], GpuRequest(4, preference=REQUIRED), None, id="pairs are not a quad"
        ),
        pytest.param(
            PAIRED, [0], GpuRequest(1, preference=REQUIRED), [1], id="single device needs no link"
        ),
        pytest.param(PAIRED, [0], GpuRequest(1), [1], id="keeps pairs intact"),
        pytest.param(PAIRED, [0], GpuRequest(2, bandwidth=600), [2, 3], id="fast enough"),
        pytest.param(PAIRED, [], GpuRequest(2, bandwidth=601), None, id="not fast enough"),
        pytest.param(SWITCHED, [0, 5], GpuRequest(6, preference=REQUIRED), [1, 2, 3, 4, 6, 7]),
        pytest.param(
            SWITCHED, [], GpuRequest(8, bandwidth=900), [*range(8)], id="full port bandwidth"
        ),
        pytest.param(SWITCHED, [0], GpuRequest(8), None, id="too few"),
        pytest.param(CUBE, [], GpuRequest(2, preference=OPTIMAL), [2, 3], id="a double link"),
        pytest.param(CUBE, [], GpuRequest(4, preference=REQUIRED), [0, 1, 2, 3], id="a quad"),
        pytest.param(
            CUBE, [0], GpuRequest(4, preference=REQUIRED), [4, 5, 6, 7], id="the other quad"
        ),
        pytest.param(CUBE, [0, 4], GpuRequest(4, preference=REQUIRED), None, id="no quad left"),
        pytest.param(
            GpuLayout.of_unknown(4), [1], GpuRequest(2, preference=NUMA), [0, 2], id="unknown"
        ),
        pytest.param(
            GpuLayout.of_unknown(4), [], GpuRequest(2, preference=REQUIRED), None, id="no links"
        ),
        pytest.param(
            GpuLayout.of_unknown(40), [0], GpuRequest(2, preference=NUMA), [1, 2], id="many"
        ),
        pytest.param(
            GpuLayout.of_unknown(40), [], GpuRequest(2, bandwidth=1), None, id="many, no links"
        ),
        pytest.param(GpuLayout.of_unknown(0), [], GpuRequest(1), None, id="no devices"),
        pytest.param(PLAIN, [], GpuRequest(0), None, id="zero requested"),
        pytest.param(PLAIN, [], GpuRequest(1, models=("A100",)), None, id="another model"),
        pytest.param(
            PLAIN, [], GpuRequest(1, models=("A100", "h100")), [0], id="one of two models"
        ),
        pytest.param(PLAIN, [], GpuRequest(1, architecture="hopper"), [0], id="architecture"),
        pytest.param(
            PLAIN, [], GpuRequest(1, architecture="Ampere"), None, id="another architecture"
        ),
        pytest.param(
            ADA, [], GpuRequest(1, architecture="ada-lovelace"), [0], id="node label spelling"
        ),
        pytest.param(
            ADA, [], GpuRequest(1, architecture="Ada Lovelace"), [0], id="spelling with space"
        ),
        pytest.param(LOVELACE, [], GpuRequest(1, architecture="Ada"), [0], id="NVML spelling"),
        pytest.param(PLAIN, [], GpuRequest(1, memory=81560), None, id="too little memory"),
    ],
)
def test_whole_devices(
    layout: GpuLayout, used: list[int], gpu_request: GpuRequest, devices: list[int] | None
) -> None:
    assert select_indices(layout, used, gpu_request) == devices


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
def test_scores(
    layout: GpuLayout, devices: list[int], preference: GpuPreference, score: float
) -> None:
    rest = [index for index in range(8) if index not in devices]
    request = GpuRequest(len(devices), preference=preference)
    free = [0 if index in rest else MILLI_PER_GPU for index in range(8)]
    choice = select_devices(layout, free, EMPTY, request)
    assert choice is not None
    assert choice.score == pytest.approx(score, abs=1e-3)


def test_bandwidth_of_a_set_is_its_narrowest_cut() -> None:
    """Each of eight has 300 GB/s, but from four to the other four there are only 300 in all."""
    assert MESH.device_sets.bandwidth[0b111] == 100
    assert MESH.device_sets.bandwidth[0xFF] == 350
    assert CUBE.device_sets.bandwidth[0b1111] == 250 * 3 / 4
    assert CUBE.device_sets.bandwidth[0xFF] == 300 * 7 / 16
    assert SWITCHED.device_sets.bandwidth[0xFF] == 900


@pytest.mark.parametrize(
    ("free", "masks", "gpu_request", "given"),
    [
        pytest.param(FREE, EMPTY, GpuRequest(1, 500), [(0, 500)], id="lowest index"),
        pytest.param(
            [1000, 600, 500, 700, 0, 0, 0, 0],
            EMPTY,
            GpuRequest(1, 500),
            [(2, 500)],
            id="tightest device",
        ),
        pytest.param(
            [400, 0, 0, 0, 0, 0, 0, 0], EMPTY, GpuRequest(1, 500), None, id="does not fit"
        ),
        pytest.param(
            [400, 300, 1000, 0, 0, 0, 0, 0],
            EMPTY,
            GpuRequest(2, 300),
            [(0, 300), (1, 300)],
            id="distinct devices",
        ),
        pytest.param(
            [1000] + [0] * 7, EMPTY, GpuRequest(2, 300), None, id="never one device twice"
        ),
        pytest.param(FREE, [1] + [0] * 7, GpuRequest(1, 300), [(1, 300)], id="not on a MIG device"),
        pytest.param(
            FREE, EMPTY, GpuRequest(1, 0, memory=40000), [(0, 491)], id="fraction by memory"
        ),
        pytest.param(
            FREE, EMPTY, GpuRequest(1, 0, memory=90000), None, id="no device has enough memory"
        ),
    ],
)
def test_shares(
    free: list[int], masks: list[int], gpu_request: GpuRequest, given: list[tuple[int, int]] | None
) -> None:
    choice = select_devices(PLAIN, free, masks, gpu_request)
    found = None if choice is None else [(share.index, share.milli) for share in choice.shares]
    assert found == given


def test_unknown_memory_holds_no_share_by_memory() -> None:
    assert (
        select_devices(GpuLayout.of_unknown(1), [MILLI_PER_GPU], [0], GpuRequest(1, 0, memory=10))
        is None
    )


@pytest.mark.parametrize(
    ("masks", "gpu_request", "given"),
    [
        pytest.param([0, 0], GpuRequest(1, profile="1g.10gb"), [(0, 6)], id="best start"),
        pytest.param(
            [0, 0x40], GpuRequest(1, profile="1g.10gb"), [(1, 4)], id="partitioned device first"
        ),
        pytest.param([0x0F, 0x40], GpuRequest(1, profile="3g.40gb"), [(0, 4)], id="least loss"),
        pytest.param([0x0F, 0xFF], GpuRequest(1, profile="4g.40gb"), None, id="does not fit"),
        pytest.param([0x3F, 0x7F], GpuRequest(1, profile="1g.10gb"), [(0, 6)], id="last start"),
        pytest.param(
            [0, 0], GpuRequest(2, profile="3g.40gb"), [(0, 0), (0, 4)], id="on one device"
        ),
        pytest.param(
            [0, 0], GpuRequest(3, profile="3g.40gb"), [(0, 0), (0, 4), (1, 4)], id="on two devices"
        ),
        pytest.param([0, 0], GpuRequest(5, profile="3g.40gb"), None, id="too many"),
        pytest.param([0, 0], GpuRequest(2, profile="1g.10gb+me"), [(0, 6), (1, 6)], id="one each"),
        pytest.param(
            [0x140, 0xFF], GpuRequest(1, profile="1g.10gb+me"), None, id="media extension in use"
        ),
        pytest.param(
            [0x140, 0xFF], GpuRequest(1, profile="1g.10gb"), [(0, 4)], id="other profiles still fit"
        ),
        pytest.param([0, 0], GpuRequest(1, profile="1g.5gb"), None, id="unknown profile"),
    ],
)
def test_instances(
    masks: list[int], gpu_request: GpuRequest, given: list[tuple[int, int]] | None
) -> None:
    layout = GpuLayout(PLAIN.gpus[:2])
    choice = select_devices(layout, [MILLI_PER_GPU, MILLI_PER_GPU], masks, gpu_request)
    found = None if choice is None else [(share.index, share.start) for share in choice.shares]
    assert found == given


def test_demand_decides_which_device_instance_avoids() -> None:
    layout = GpuLayout(PLAIN.gpus[:2])
    masks = [0x0F, 0x03]
    for wanted, index in (("3g.40gb", 1), ("2g.20gb", 0)):
        demand = ((wanted, 1.0),)
        request = GpuRequest(1, profile="1g.10gb")
        assert device_indices(select_devices(layout, [0, 0], masks, request, demand=demand)) == [
            index
        ]


def test_instances_use_only_mig_devices_that_are_not_shared() -> None:
    layout = GpuLayout(
        numbered([Gpu(0), Gpu(0, mig=H100), Gpu(0, mig=H100, healthy=False), PLAIN.gpus[0]])
    )
    request = GpuRequest(1, profile="1g.10gb")
    assert device_indices(select_devices(layout, [MILLI_PER_GPU] * 4, [0] * 4, request)) == [1]
    assert device_indices(
        select_devices(layout, [MILLI_PER_GPU, 500, MILLI_PER_GPU, MILLI_PER_GPU], [0] * 4, request)
    ) == [3]
    assert layout.instance_counts("1g.10gb")[:, 0].tolist() == [0, 7, 0, 7]


def test_selection_leaves_sets_for_further_pods() -> None:
    """The fastest pair is in the middle: taking it leaves none."""
    request = GpuRequest(2, preference=REQUIRED)
    assert device_indices(select_devices(CHAIN, FREE, EMPTY, request)) == [1, 2]
    assert device_indices(select_devices(CHAIN, FREE, EMPTY, request, further_pods=1)) == [0, 1]
    assert device_indices(select_devices(CHAIN, FREE, EMPTY, request, further_pods=5)) == [0, 1]
    assert count_fitting_pods(
        [CHAIN], np.zeros(1, np.int32), np.array([0xFF]), request
    ).tolist() == [2]


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
    ("gpus", "links", "message"),
    [
        ((Gpu(1),), (), "device 1 is at position 0"),
        ((Gpu(0), Gpu(1)), ((1, 0, 5),), "link 1-0"),
        ((Gpu(0), Gpu(1)), ((0, 2, 5),), "link 0-2"),
        ((Gpu(0), Gpu(1)), ((0, 1, -5),), "-5 GB/s"),
        ((Gpu(0), Gpu(1)), ((0, 1, 5), (0, 1, 6)), "two links"),
    ],
)
def test_contradictory_layout_is_rejected(
    gpus: tuple[Gpu, ...], links: tuple[tuple[int, int, int], ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GpuLayout(gpus, links)


def test_idle_devices_are_unused_ones() -> None:
    free = np.array([[1000, 999, 1000, 0], [1000, 1000, 0, 0]], np.int16)
    masks = np.array([[0, 0, 1, 0], [0, 0, 0, 0]], np.uint16)
    assert idle_devices(free, masks).tolist() == [0b0001, 0b0011]


def test_many_nodes_are_scored_by_tables() -> None:
    layouts = [GpuLayout.of_unknown(0), PAIRED, SWITCHED, GpuLayout.of_unknown(30)]
    ids = np.array([1, 2, 1, 0, 3], np.int32)
    idle = np.array([0b01010101, 0b01010101, 0b11, 0, 0b111])
    request = GpuRequest(2, preference=REQUIRED)
    assert best_scores(layouts, ids, idle, request).tolist() == [-1, 100, 100, -1, -1]
    assert count_fitting_pods(layouts, ids, idle, request).tolist() == [0, 2, 1, 0, 0]
    wish = GpuRequest(2)
    assert best_scores(layouts, ids, idle, wish).tolist() == [50, 50, 50, -1, 50]
    assert count_fitting_pods(layouts, ids, idle, wish).tolist() == [2, 2, 1, 0, 1]
    assert best_scores(layouts, ids, idle, GpuRequest(1, 500)).tolist() == [100] * 5
    none = np.zeros(0, np.int32), np.zeros(0, np.int64)
    assert (
        best_scores(layouts, *none, request).tolist()
        == count_fitting_pods(layouts, *none, request).tolist()
        == []
    )


@pytest.mark.parametrize(
    ("gpu_request", "does"),
    [
        (GpuRequest(2), False),
        (GpuRequest(2, preference=NUMA), False),
        (GpuRequest(2, preference=REQUIRED), True),
        (GpuRequest(1, preference=REQUIRED), False),
        (GpuRequest(2, bandwidth=1), True),
        (GpuRequest(1, models=("H100",)), True),
        (GpuRequest(1, memory=1), True),
    ],
)
def test_required_topology_is_counted_by_sets(gpu_request: GpuRequest, does: bool) -> None:
    assert has_device_requirements(gpu_request) == does


def test_all_sets_of_sixteen_devices_are_considered() -> None:
    gpus = tuple(Gpu(i, numa=i // 8, pcie=f"s{i // 4}", port=900) for i in range(16))
    layout = GpuLayout(gpus)
    assert select_indices(layout, [0], GpuRequest(8, preference=NUMA)) == [*range(8, 16)]
    assert select_indices(layout, [0, 9], GpuRequest(4, preference=PCIE)) == [4, 5, 6, 7]
    request = GpuRequest(4, preference=REQUIRED)
    idle = np.array([(1 << 16) - 1, 0b111])
    assert count_fitting_pods([layout], np.zeros(2, np.int32), idle, request).tolist() == [4, 0]
    ring = GpuLayout(
        gpus=tuple(Gpu(i) for i in range(16)), links=tuple((i, i + 1, 50) for i in range(15))
    )
    assert select_indices(ring, [0, 1, 3], GpuRequest(2, bandwidth=50)) == [4, 5]


# Random layouts

preferences = st.sampled_from(list(GpuPreference))


@st.composite
def layouts(draw: st.DrawFn) -> GpuLayout:
    """Up to six devices with random links."""
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
    return GpuLayout(numbered(gpus), tuple(link for link in links if link[2]))


asks = st.builds(
    GpuRequest,
    count=st.integers(1, 4),
    milli=st.sampled_from([MILLI_PER_GPU, MILLI_PER_GPU, MILLI_PER_GPU, 100, 500]),
    memory=st.sampled_from([0, 40960]),
    preference=preferences,
    bandwidth=st.sampled_from([0, 0, 25, 50, 700]),
) | st.builds(
    GpuRequest,
    count=st.integers(1, 4),
    profile=st.sampled_from(["1g.10gb", "1g.10gb+me", "3g.40gb", "1g.6gb", "4g.24gb"]),
)
states = st.lists(
    st.sampled_from(
        [
            (MILLI_PER_GPU, 0),
            (MILLI_PER_GPU, 0),
            (0, 0),
            (500, 0),
            (MILLI_PER_GPU, 0x40),
            (MILLI_PER_GPU, 0x10F),
        ]
    ),
    min_size=6,
    max_size=6,
)


def slow_bandwidth(layout: GpuLayout, devices: Sequence[int]) -> float:
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


def slow_proximity(layout: GpuLayout, a: int, b: int) -> float:
    one, other = layout.gpus[a], layout.gpus[b]
    if (one.port and other.port) or any(link[:2] == (a, b) for link in layout.links):
        return 1
    if one.pcie and one.pcie == other.pcie:
        return 0.75
    return 0.5 if one.numa >= 0 and one.numa == other.numa else 0


def slow_score(layout: GpuLayout, devices: Sequence[int], gpu_request: GpuRequest) -> float | None:
    """The score of a set before it is capped at 100, from the specification."""
    if len(devices) == 1:
        return 100
    near = min(slow_proximity(layout, a, b) for a, b in combinations(devices, 2))
    speed = slow_bandwidth(layout, devices)
    if speed < gpu_request.bandwidth or (gpu_request.preference is REQUIRED and near < 1):
        return None
    numas = [layout.gpus[index].numa for index in devices]
    switches = [layout.gpus[index].pcie for index in devices]
    shared = max((numas.count(numa) for numa in numas if numa >= 0), default=0)
    rest = 20 * near + 10 * shared / len(devices)
    more = 50 * min(speed / 900, 1) + rest
    match gpu_request.preference:
        case GpuPreference.NONE:
            return 50
        case GpuPreference.NVLINK_OPTIMAL | GpuPreference.NVLINK_REQUIRED:
            return 50 + more if near == 1 else min(70, 50 + rest)
        case GpuPreference.SAME_NUMA:
            return 90 + more if shared == len(devices) else min(89, 50 + more)
        case GpuPreference.SAME_PCIE_SWITCH:
            met = bool(switches[0]) and len({*switches}) == 1
            return 80 + more if met else min(79, 50 + more)


def acceptable_sets(
    layout: GpuLayout, free: Sequence[int], gpu_request: GpuRequest
) -> Iterator[tuple[int, ...]]:
    suits = [
        i for i in free if layout.gpus[i].healthy and layout.gpus[i].memory >= gpu_request.memory
    ]
    for devices in combinations(suits, gpu_request.count):
        if slow_score(layout, devices, gpu_request) is not None:
            yield devices


@settings(max_examples=limit_examples(400), deadline=None)
@given(layouts(), states, asks)
def test_selection_is_free_and_optimal(
    layout: GpuLayout, state: list[tuple[int, int]], gpu_request: GpuRequest
) -> None:
    free, masks = [milli for milli, _ in state], [mask for _, mask in state]
    count = len(layout.gpus)
    choice = select_devices(layout, free[:count], masks[:count], gpu_request)
    again = GpuLayout(layout.gpus, layout.links)
    assert select_devices(again, free[:count], masks[:count], gpu_request) == choice
    idle = [i for i in range(count) if free[i] == MILLI_PER_GPU and not masks[i]]
    if gpu_request.is_whole:
        scores = [
            slow_score(layout, devices, gpu_request)
            for devices in acceptable_sets(layout, idle, gpu_request)
        ]
        best = max((score for score in scores if score is not None), default=None)
        assert (choice is None) == (best is None)
        if choice is not None and best is not None:
            chosen = [share.index for share in choice.shares]
            assert len({*chosen} & {*idle}) == gpu_request.count
            assert slow_score(layout, chosen, gpu_request) == pytest.approx(best, abs=2e-3)
            assert choice.score == pytest.approx(min(best, 100), abs=2e-3)
        free_set = np.array([sum(1 << index for index in idle)])
        judged = best_scores([layout], np.zeros(1, np.int32), free_set, gpu_request)
        assert judged.tolist() == [-1.0 if choice is None else choice.score]
    elif choice is not None:
        assert len(choice.shares) == gpu_request.count
        for share in choice.shares:
            gpu = layout.gpus[share.index]
            assert gpu.healthy
            if gpu_request.profile:
                assert gpu.mig is not None
                assert share.start in gpu.mig.free_starts(masks[share.index], gpu_request.profile)
                masks[share.index] |= share.mask
            else:
                assert masks[share.index] == 0
                assert share.milli == gpu_request.milli <= free[share.index]
                free[share.index] = 0


@settings(max_examples=limit_examples(200), deadline=None)
@given(layouts(), st.integers(0, 63), st.integers(1, 3), preferences, st.sampled_from([0, 50]))
def test_free_capacity_equals_pods_that_get_devices(
    layout: GpuLayout, idle: int, count: int, preference: GpuPreference, bandwidth: int
) -> None:
    request = GpuRequest(count, preference=preference, bandwidth=bandwidth)
    devices = [index for index in range(len(layout.gpus)) if idle >> index & 1]
    free_set = np.array([sum(1 << index for index in devices)])
    capacity = int(count_fitting_pods([layout], np.zeros(1, np.int32), free_set, request)[0])

    def most(left: Sequence[int]) -> int:
        sets = acceptable_sets(layout, left, request)
        return max((1 + most([i for i in left if i not in taken]) for taken in sets), default=0)

    assert capacity == most(devices)
    free = [MILLI_PER_GPU if index in devices else 0 for index in range(len(layout.gpus))]
    for further in reversed(range(capacity)):
        choice = select_devices(layout, free, [0] * len(free), request, further_pods=further)
        assert choice is not None
        for share in choice.shares:
            assert share == GpuShare(share.index)
            assert free[share.index] == MILLI_PER_GPU
            free[share.index] = 0
    assert select_devices(layout, free, [0] * len(free), request) is None
