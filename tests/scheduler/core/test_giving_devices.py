"""A node with room for so many pods has devices for so many, whatever its devices are."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import GpuAsk, Preference, Shape
from kilonova.scheduler.core.devices import WHOLE, Gpu, Layout
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.giving import devices_for
from kilonova.scheduler.core.mig_parts import known_geometry
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.rooms import fitting
from kilonova.scheduler.core.snapshot import GPU, Booking
from tests.scheduler.core.clusters import snapshot_of

H100, A30 = known_geometry("H100-80GB"), known_geometry("A30-24GB")

devices = st.builds(
    Gpu,
    index=st.just(0),
    memory=st.sampled_from([0, 24576, 81559]),
    model=st.sampled_from(["NVIDIA-H100-80GB-HBM3", "NVIDIA-A30"]),
    numa=st.integers(-1, 1),
    port=st.sampled_from([0, 0, 900]),
    mig=st.sampled_from([None, H100, A30]),
    healthy=st.sampled_from([True, True, True, False]),
)
chains = st.lists(st.sampled_from([0, 50, 100]), min_size=5, max_size=5)
asks = st.one_of(
    st.builds(
        GpuAsk,
        count=st.integers(1, 3),
        milli=st.sampled_from([0, 100, 300, 500, WHOLE, WHOLE]),
        memory=st.sampled_from([1000, 24576]),
        models=st.sampled_from([(), ("A30",)]),
        preference=st.sampled_from(list(Preference)),
        bandwidth=st.sampled_from([0, 50]),
    ),
    st.builds(
        GpuAsk,
        count=st.integers(1, 3),
        profile=st.sampled_from(["1g.10gb", "1g.10gb+me", "3g.40gb", "1g.6gb", "2g.12gb+me"]),
        models=st.sampled_from([(), ("A30",)]),
    ),
)


def laid_out(gpus: list[Gpu], chain: list[int]) -> Layout:
    fields = [
        Gpu(i, g.memory, g.model, g.architecture, g.numa, g.pcie, g.port, g.mig, g.healthy)
        for i, g in enumerate(gpus)
    ]
    links = [(i, i + 1, speed) for i, speed in enumerate(chain[: len(gpus) - 1]) if speed]
    return Layout(tuple(fields), tuple(links))


def shape_of(ask: GpuAsk) -> Shape:
    return Shape(((GPU, ask.count),) if ask.whole else (), ask)


@settings(max_examples=300, deadline=None)
@given(st.lists(devices, min_size=1, max_size=6), chains, st.lists(asks, min_size=1, max_size=4))
def test_where_there_is_room_there_are_devices(
    gpus: list[Gpu], chain: list[int], wanted: list[GpuAsk]
) -> None:
    layout = laid_out(gpus, chain)
    snapshot = snapshot_of(Node("a", {GPU: len(gpus)}, layout=layout))
    free, masks = snapshot.gpu_free[0].copy(), snapshot.gpu_mask[0].copy()
    for number, ask in enumerate(wanted):
        shape = shape_of(ask)
        room = int(fitting(snapshot, shape, np.array([0]))[0])
        given_to = devices_for(snapshot, 0, shape, room)
        assert len(given_to) == room
        for pod, shares in enumerate(given_to[: 1 + room // 2]):
            assert len({(share.index, share.start) for share in shares}) == ask.count
            for share in shares:
                assert free[share.index] >= share.milli
                assert not masks[share.index] & share.mask
                free[share.index] -= share.milli
                masks[share.index] |= share.mask
            snapshot.book(Booking(Member(f"{number}-{pod}", shape), 0, shares))
        assert snapshot.gpu_free[0].tolist() == free.tolist()
        assert snapshot.gpu_mask[0].tolist() == masks.tolist()
