from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.gangs import (
    Gang,
    GangAntiAffinity,
    Group,
    GroupBundle,
    Member,
    PackConstraint,
    SegmentConstraint,
)
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from tests.scheduler.core.support.clusters import (
    BLOCK,
    RACK,
    gang,
    group,
    node,
    placer,
    shape,
    snapshot_of,
)


def racks(count: int, nodes: int = 2, gpus: int = 8) -> Snapshot:
    return snapshot_of(
        *(
            node(f"r{rack}n{index}", gpus, rack=f"r{rack}", block=f"b{rack // 2}")
            for rack in range(count)
            for index in range(nodes)
        )
    )


def names(snapshot: Snapshot, placements: list[PodPlacement] | None) -> list[str]:
    assert placements is not None
    return [snapshot.names[placement.row] for placement in placements]


def test_nothing_is_placed_when_minimum_does_not_fit() -> None:
    snapshot = racks(1)
    assert placer(snapshot).place(gang("g", group("a", 10), group("b", 10))) is None
    assert not snapshot.placements
    assert snapshot.free[snapshot.resources[GPU], :2].tolist() == [8, 8]


def test_surplus_pods_follow_as_far_as_capacity_allows() -> None:
    snapshot = racks(1)
    placed = placer(snapshot).place(gang("g", group("a", 20, 4), group("b", 4)))
    assert placed is not None
    assert Counter(placement.pod.split("-")[0] for placement in placed) == {"ns/a": 12, "ns/b": 4}


def test_surplus_pods_leave_full_domain() -> None:
    snapshot = racks(2)
    place = placer(snapshot).place
    assert place(gang("full", group("f", 16, pack=PackConstraint(required=RACK)))) is not None
    more = Group(
        "a", group("a", 2).members, 1, PackConstraint(preferred=RACK), placed_nodes=("r0n0",)
    )
    assert {name[:2] for name in names(snapshot, place(gang("g", more)))} == {"r1"}
    assert place(gang("h", group("b", 20, 0, of=shape(9)))) is None


def test_required_domain_holds_whole_gang() -> None:
    snapshot = racks(3)
    wide = gang("g", group("a", 6), group("b", 6), pack=PackConstraint(required=RACK))
    assert len({name[:2] for name in names(snapshot, placer(snapshot).place(wide))}) == 1
    assert (
        placer(snapshot).place(gang("h", group("c", 17), pack=PackConstraint(required=RACK)))
        is None
    )


def test_tightest_domain_is_used() -> None:
    snapshot = racks(3)
    place = placer(snapshot).place
    first = names(snapshot, place(gang("g", group("a", 4), pack=PackConstraint(required=RACK))))
    second = names(snapshot, place(gang("h", group("b", 4), pack=PackConstraint(required=RACK))))
    assert {name[:2] for name in first} == {name[:2] for name in second}


def test_groups_get_own_domains_within_gang_domain() -> None:
    snapshot = racks(4)
    inner = PackConstraint(required=RACK)
    one = gang(
        "g", group("a", 9, pack=inner), group("b", 9, pack=inner), pack=PackConstraint(BLOCK)
    )
    placed = placer(snapshot).place(one)
    assert placed is not None
    where = {
        role: {snapshot.names[b.row][:2] for b in placed if b.pod.startswith(f"ns/{role}")}
        for role in "ab"
    }
    assert len(where["a"]) == len(where["b"]) == 1
    assert where["a"] | where["b"] in ({"r0", "r1"}, {"r2", "r3"})


def test_bundle_is_packed_beside_other_groups() -> None:
    snapshot = racks(2)
    bundle = GroupBundle(("a", "b"), PackConstraint(required=RACK))
    one = Gang("g", (group("a", 8), group("b", 8), group("c", 8)), bundles=(bundle,))
    placed = placer(snapshot).place(one)
    assert placed is not None
    inside = {snapshot.names[b.row][:2] for b in placed if b.pod[3] in "ab"}
    assert len(inside) == 1


@pytest.mark.parametrize(
    ("pods", "domains"),
    [(12, {"r2"}), (19, {"r0", "r1"}), (30, {"r2", "r3"})],
)
def test_nested_bundles_prefer_the_outermost_level(pods: int, domains: set[str]) -> None:
    """A rack wherever it is, else the tightest block."""
    snapshot = snapshot_of(
        *(
            node(f"r{rack}n{index}", gpus, rack=f"r{rack}", block=f"b{rack // 2}")
            for rack, gpus in enumerate((5, 5, 8, 9))
            for index in range(2)
        )
    )
    levels = (RACK, BLOCK)
    bundles = tuple(GroupBundle(("a",), PackConstraint(preferred=each)) for each in levels)
    one = Gang("g", (group("a", pods), group("c", 1)), bundles=bundles)
    placed = placer(snapshot).place(one)
    assert placed is not None
    agents = {snapshot.names[each.row][:2] for each in placed if each.pod.startswith("ns/a")}
    assert agents == domains


def test_all_nested_bundles_are_required() -> None:
    snapshot = racks(4)
    bundles = tuple(
        GroupBundle(("a", "b"), PackConstraint(required=each)) for each in (BLOCK, RACK)
    )
    place = placer(snapshot).place
    assert place(Gang("g", (group("a", 9), group("b", 9)), bundles=bundles)) is None
    fits = Gang("h", (group("a", 8), group("b", 8)), bundles=bundles)
    assert len({name[:2] for name in names(snapshot, place(fits))}) == 1


def test_preferred_domain_is_used_when_possible() -> None:
    snapshot = racks(3)
    place = placer(snapshot).place
    near = names(snapshot, place(gang("g", group("a", 12), pack=PackConstraint(preferred=RACK))))
    assert len({name[:2] for name in near}) == 1
    far = names(snapshot, place(gang("h", group("b", 20), pack=PackConstraint(preferred=RACK))))
    assert len({name[:2] for name in far}) == 2


def test_each_segment_is_within_one_domain() -> None:
    snapshot = racks(3, gpus=3)
    members = group("a", 12).members
    one = gang("g", Group("a", members, 12, segments=SegmentConstraint(4, RACK)))
    where = names(snapshot, placer(snapshot).place(one))
    segments = [{name[:2] for name in where[start : start + 4]} for start in range(0, 12, 4)]
    assert all(len(segment) == 1 for segment in segments)
    assert (
        placer(snapshot).place(
            gang("h", Group("b", members, 8, segments=SegmentConstraint(8, RACK)))
        )
        is None
    )


def test_neighbouring_ranks_are_placed_near_each_other() -> None:
    snapshot = racks(4)
    one = gang("g", group("a", 32), pack=PackConstraint(required=BLOCK))
    where = names(snapshot, placer(snapshot).place(one))
    assert where == sorted(where)


def test_later_pods_follow_placed_ones() -> None:
    snapshot = racks(3)
    grown = Group(
        "a", group("a", 2).members, 3, PackConstraint(required=RACK), placed_nodes=("r2n0",)
    )
    assert {name[:2] for name in names(snapshot, placer(snapshot).place(gang("g", grown)))} == {
        "r2"
    }


def test_gang_anti_affinity_separates_gangs() -> None:
    snapshot = racks(2)
    place = placer(snapshot).place
    near = PackConstraint(required=RACK)
    first = Gang(
        "g", (group("a", 2),), near, anti_affinity=GangAntiAffinity(RACK, avoided_nodes=("r0n0",))
    )
    assert {name[:2] for name in names(snapshot, place(first))} == {"r1"}
    must = GangAntiAffinity(RACK, required=True, avoided_nodes=("r0n0", "r1n0"))
    assert place(Gang("h", (group("b", 2),), near, anti_affinity=must)) is None
    may = GangAntiAffinity(RACK, avoided_nodes=("r0n0", "r1n0", "r1n1"))
    assert {
        name[:2]
        for name in names(snapshot, place(Gang("i", (group("c", 2),), near, anti_affinity=may)))
    } == {"r0"}


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    packs = st.sampled_from(
        [
            PackConstraint(),
            PackConstraint(RACK),
            PackConstraint(BLOCK),
            PackConstraint("", RACK),
            PackConstraint(BLOCK, RACK),
        ]
    )
    number = draw(st.integers(0, 10_000_000))
    made: list[Group] = []
    for index in range(draw(st.integers(1, 3))):
        of = draw(st.sampled_from([shape(1), shape(2), shape(4), shape(0), shape(1, milli=400)]))
        count = draw(st.integers(1, 6))
        name = f"g{number}-{index}"
        made.append(group(name, count, draw(st.integers(0, count)), of=of, pack=draw(packs)))
    return gang(f"g{number}", *made, pack=draw(packs))


@given(st.lists(gangs(), max_size=6, unique_by=lambda one: one.name), st.integers(1, 4))
def test_placement_is_exclusive_and_all_or_nothing(wanted: list[Gang], count: int) -> None:
    snapshot = racks(count, gpus=4)
    place = placer(snapshot).place
    for one in wanted:
        before = snapshot.free.copy(), snapshot.gpu_free.copy(), len(snapshot.placements)
        placed = place(one)
        if placed is None:
            assert np.array_equal(before[0], snapshot.free)
            assert np.array_equal(before[1], snapshot.gpu_free)
            assert len(snapshot.placements) == before[2]
            continue
        got = Counter(placement.pod.rsplit("-", 1)[0] for placement in placed)
        for each in one.groups:
            assert got[f"ns/{each.name}"] >= each.minimum
            if each.pack.required and got[f"ns/{each.name}"]:
                assert len(_domains(snapshot, each.pack.required, placed, each.name)) == 1
        if one.pack.required:
            assert len(_domains(snapshot, one.pack.required, placed, "")) <= 1
    assert (snapshot.free >= 0).all()
    assert ((snapshot.gpu_free >= 0) & (snapshot.gpu_free <= 1000)).all()
    whole = Counter[tuple[int, int]]()
    for placement in snapshot.placements.values():
        for share in placement.devices:
            whole[placement.row, share.index] += share.milli
    assert all(milli <= 1000 for milli in whole.values())


def _domains(
    snapshot: Snapshot, level: str, placed: list[PodPlacement], group_name: str
) -> set[str]:
    return {
        snapshot.labels.labels_of(placement.row)[level]
        for placement in placed
        if placement.pod.startswith(f"ns/{group_name}")
    }


def big(racks: int, nodes: int) -> Snapshot:
    return snapshot_of(
        *(
            node(f"r{rack:03d}n{index}", rack=f"r{rack:03d}")
            for rack in range(racks)
            for index in range(nodes)
        )
    )


def test_many_groups_each_in_a_rack_are_placed() -> None:
    groups = [group(f"g{index}", 2, pack=PackConstraint(required=RACK)) for index in range(300)]
    assert len(placer(big(100, 4)).place(gang("g", *groups)) or ()) == 600


@pytest.mark.parametrize(("size", "segments"), [(1, 250), (2, 260)])
def test_many_segments_of_two_shapes_are_placed(size: int, segments: int) -> None:
    """One by one, without recursion: the call stack is limited."""
    shapes = (shape(1), shape(2))
    members = tuple(Member(f"ns/{index}", shapes[index % 2]) for index in range(size * segments))
    wanted = Group("w", members, len(members), segments=SegmentConstraint(size, RACK))
    snapshot = big(100, 4)
    placed = placer(snapshot).place(gang("g", wanted))
    assert placed is not None
    racks = [name[:4] for name in names(snapshot, placed)]
    assert all(len({*racks[each : each + size]}) == 1 for each in range(0, len(racks), size))


def test_infeasible_segments_are_rejected_after_bounded_search() -> None:
    """Three of them use 15 of the 16 GPUs of a rack, so that 300 fit and not 310, although 1,550
    GPUs are free."""
    shapes = (shape(3), shape(2))
    members = tuple(Member(f"ns/{index}", shapes[index % 2]) for index in range(620))
    wanted = Group("w", members, len(members), segments=SegmentConstraint(2, RACK))
    snapshot = big(100, 2)
    assert placer(snapshot).place(gang("g", wanted)) is None
    assert not snapshot.placements


def test_group_without_required_pods_blocks_nothing() -> None:
    snapshot = snapshot_of(node("n0"))
    main, extra = group("main", 1), group("extra", 1, 0, pack=PackConstraint(required=RACK))
    assert names(snapshot, placer(snapshot).place(gang("g", main, extra))) == ["n0"]


def test_group_in_two_racks_does_not_block_other_group() -> None:
    snapshot = snapshot_of(node("n0", rack="r0"), node("n1", rack="r1"), node("n2", rack="r1"))
    router = Group("router", (), 2, PackConstraint(required=RACK), placed_nodes=("n0", "n1"))
    assert placer(snapshot).place(gang("g", router, group("worker", 1))) is not None


def test_surplus_of_zero_minimum_group_is_packed_in_one_rack() -> None:
    snapshot = racks(2)
    extra = group("extra", 3, 0, pack=PackConstraint(required=RACK))
    where = names(snapshot, placer(snapshot).place(gang("g", group("main", 1), extra)))
    assert len(where) == 4
    assert len({name[:2] for name in where[1:]}) == 1


def test_unknown_resource_is_unavailable_everywhere() -> None:
    odd = replace(shape(0), requests=(*shape(0).requests, ("example.com/unheard-of", 1)))
    wanted = gang("g", group("a", 1), group("b", 1, of=odd))
    assert placer(racks(1)).place(wanted) is None
