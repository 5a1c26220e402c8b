from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.gangs import Apart, Bundle, Gang, Group, Member, Pack, Segments
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot
from tests.scheduler.core.clusters import (
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


def names(snapshot: Snapshot, bookings: list[Booking] | None) -> list[str]:
    assert bookings is not None
    return [snapshot.names[booking.row] for booking in bookings]


def test_nothing_is_booked_where_the_minimum_has_no_place() -> None:
    snapshot = racks(1)
    assert placer(snapshot).place(gang("g", group("a", 10), group("b", 10))) is None
    assert not snapshot.bookings
    assert snapshot.free[snapshot.resources[GPU], :2].tolist() == [8, 8]


def test_what_is_above_the_minimum_follows_as_far_as_there_is_room() -> None:
    snapshot = racks(1)
    placed = placer(snapshot).place(gang("g", group("a", 20, 4), group("b", 4)))
    assert placed is not None
    assert Counter(booking.pod.split("-")[0] for booking in placed) == {"ns/a": 12, "ns/b": 4}


def test_more_of_a_gang_that_has_its_minimum_go_elsewhere_if_its_domain_is_full() -> None:
    snapshot = racks(2)
    place = placer(snapshot).place
    assert place(gang("full", group("f", 16, pack=Pack(required=RACK)))) is not None
    more = Group("a", group("a", 2).members, 1, Pack(preferred=RACK), placed=("r0n0",))
    assert {name[:2] for name in names(snapshot, place(gang("g", more)))} == {"r1"}
    assert place(gang("h", group("b", 20, 0, of=shape(9)))) is None


def test_a_required_domain_holds_the_whole_gang() -> None:
    snapshot = racks(3)
    wide = gang("g", group("a", 6), group("b", 6), pack=Pack(required=RACK))
    assert len({name[:2] for name in names(snapshot, placer(snapshot).place(wide))}) == 1
    assert placer(snapshot).place(gang("h", group("c", 17), pack=Pack(required=RACK))) is None


def test_the_tightest_domain_is_taken_so_that_empty_ones_stay_empty() -> None:
    snapshot = racks(3)
    place = placer(snapshot).place
    first = names(snapshot, place(gang("g", group("a", 4), pack=Pack(required=RACK))))
    second = names(snapshot, place(gang("h", group("b", 4), pack=Pack(required=RACK))))
    assert {name[:2] for name in first} == {name[:2] for name in second}


def test_groups_stand_in_domains_of_their_own_within_that_of_the_gang() -> None:
    snapshot = racks(4)
    inner = Pack(required=RACK)
    one = gang("g", group("a", 9, pack=inner), group("b", 9, pack=inner), pack=Pack(BLOCK))
    placed = placer(snapshot).place(one)
    assert placed is not None
    where = {
        role: {snapshot.names[b.row][:2] for b in placed if b.pod.startswith(f"ns/{role}")}
        for role in "ab"
    }
    assert len(where["a"]) == len(where["b"]) == 1
    assert where["a"] | where["b"] in ({"r0", "r1"}, {"r2", "r3"})


def test_a_bundle_stands_together_beside_the_rest() -> None:
    snapshot = racks(2)
    bundle = Bundle(("a", "b"), Pack(required=RACK))
    one = Gang("g", (group("a", 8), group("b", 8), group("c", 8)), bundles=(bundle,))
    placed = placer(snapshot).place(one)
    assert placed is not None
    inside = {snapshot.names[b.row][:2] for b in placed if b.pod[3] in "ab"}
    assert len(inside) == 1


def test_a_preferred_domain_is_kept_if_it_can_be() -> None:
    snapshot = racks(3)
    place = placer(snapshot).place
    near = names(snapshot, place(gang("g", group("a", 12), pack=Pack(preferred=RACK))))
    assert len({name[:2] for name in near}) == 1
    far = names(snapshot, place(gang("h", group("b", 20), pack=Pack(preferred=RACK))))
    assert len({name[:2] for name in far}) == 2


def test_segments_stand_each_within_one_domain() -> None:
    snapshot = racks(3, gpus=3)
    members = group("a", 12).members
    one = gang("g", Group("a", members, 12, segments=Segments(4, RACK)))
    where = names(snapshot, placer(snapshot).place(one))
    segments = [{name[:2] for name in where[start : start + 4]} for start in range(0, 12, 4)]
    assert all(len(segment) == 1 for segment in segments)
    assert (
        placer(snapshot).place(gang("h", Group("b", members, 8, segments=Segments(8, RACK))))
        is None
    )


def test_neighbours_in_rank_stand_near_each_other() -> None:
    snapshot = racks(4)
    one = gang("g", group("a", 32), pack=Pack(required=BLOCK))
    where = names(snapshot, placer(snapshot).place(one))
    assert where == sorted(where)


def test_more_of_a_gang_go_where_it_stands() -> None:
    snapshot = racks(3)
    grown = Group("a", group("a", 2).members, 3, Pack(required=RACK), placed=("r2n0",))
    assert {name[:2] for name in names(snapshot, placer(snapshot).place(gang("g", grown)))} == {
        "r2"
    }


def test_gangs_stand_apart() -> None:
    snapshot = racks(2)
    place = placer(snapshot).place
    near = Pack(required=RACK)
    first = Gang("g", (group("a", 2),), near, apart=Apart(RACK, others=("r0n0",)))
    assert {name[:2] for name in names(snapshot, place(first))} == {"r1"}
    must = Apart(RACK, required=True, others=("r0n0", "r1n0"))
    assert place(Gang("h", (group("b", 2),), near, apart=must)) is None
    may = Apart(RACK, others=("r0n0", "r1n0", "r1n1"))
    assert {
        name[:2] for name in names(snapshot, place(Gang("i", (group("c", 2),), near, apart=may)))
    } == {"r0"}


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    packs = st.sampled_from([Pack(), Pack(RACK), Pack(BLOCK), Pack("", RACK), Pack(BLOCK, RACK)])
    number = draw(st.integers(0, 10_000_000))
    made: list[Group] = []
    for index in range(draw(st.integers(1, 3))):
        of = draw(st.sampled_from([shape(1), shape(2), shape(4), shape(0), shape(1, milli=400)]))
        count = draw(st.integers(1, 6))
        name = f"g{number}-{index}"
        made.append(group(name, count, draw(st.integers(0, count)), of=of, pack=draw(packs)))
    return gang(f"g{number}", *made, pack=draw(packs))


@given(st.lists(gangs(), max_size=6, unique_by=lambda one: one.name), st.integers(1, 4))
def test_placing_gives_nothing_twice_and_gangs_whole(wanted: list[Gang], count: int) -> None:
    snapshot = racks(count, gpus=4)
    place = placer(snapshot).place
    for one in wanted:
        before = snapshot.free.copy(), snapshot.gpu_free.copy(), len(snapshot.bookings)
        placed = place(one)
        if placed is None:
            assert np.array_equal(before[0], snapshot.free)
            assert np.array_equal(before[1], snapshot.gpu_free)
            assert len(snapshot.bookings) == before[2]
            continue
        got = Counter(booking.pod.rsplit("-", 1)[0] for booking in placed)
        for each in one.groups:
            assert got[f"ns/{each.name}"] >= each.minimum
            if each.pack.required and got[f"ns/{each.name}"]:
                assert len(_domains(snapshot, each.pack.required, placed, each.name)) == 1
        if one.pack.required:
            assert len(_domains(snapshot, one.pack.required, placed, "")) <= 1
    assert (snapshot.free >= 0).all()
    assert ((snapshot.gpu_free >= 0) & (snapshot.gpu_free <= 1000)).all()
    whole = Counter[tuple[int, int]]()
    for booking in snapshot.bookings.values():
        for share in booking.devices:
            whole[booking.row, share.index] += share.milli
    assert all(milli <= 1000 for milli in whole.values())


def _domains(snapshot: Snapshot, level: str, placed: list[Booking], group_name: str) -> set[str]:
    return {
        snapshot.labels.of(booking.row)[level]
        for booking in placed
        if booking.pod.startswith(f"ns/{group_name}")
    }


def big(racks: int, nodes: int) -> Snapshot:
    return snapshot_of(
        *(
            node(f"r{rack:03d}n{index}", rack=f"r{rack:03d}")
            for rack in range(racks)
            for index in range(nodes)
        )
    )


def test_many_groups_each_in_a_rack_have_their_places() -> None:
    groups = [group(f"g{index}", 2, pack=Pack(required=RACK)) for index in range(300)]
    assert len(placer(big(100, 4)).place(gang("g", *groups)) or ()) == 600


@pytest.mark.parametrize(("size", "segments"), [(1, 250), (2, 260)])
def test_many_segments_of_two_shapes_have_their_places(size: int, segments: int) -> None:
    """A place after the other, not a place within the other: the stack of calls is finite."""
    shapes = (shape(1), shape(2))
    members = tuple(Member(f"ns/{index}", shapes[index % 2]) for index in range(size * segments))
    wanted = Group("w", members, len(members), segments=Segments(size, RACK))
    snapshot = big(100, 4)
    placed = placer(snapshot).place(gang("g", wanted))
    assert placed is not None
    racks = [name[:4] for name in names(snapshot, placed)]
    assert all(len({*racks[each : each + size]}) == 1 for each in range(0, len(racks), size))


def test_many_segments_that_do_not_fit_are_refused_after_a_bounded_search() -> None:
    """Three of them use 15 of the 16 GPUs of a rack, so that 300 fit and not 310; 1,550 GPUs are
    free, however."""
    shapes = (shape(3), shape(2))
    members = tuple(Member(f"ns/{index}", shapes[index % 2]) for index in range(620))
    wanted = Group("w", members, len(members), segments=Segments(2, RACK))
    snapshot = big(100, 2)
    assert placer(snapshot).place(gang("g", wanted)) is None
    assert not snapshot.bookings


def test_a_group_that_needs_nothing_keeps_nobody_back() -> None:
    snapshot = snapshot_of(node("n0"))
    main, extra = group("main", 1), group("extra", 1, 0, pack=Pack(required=RACK))
    assert names(snapshot, placer(snapshot).place(gang("g", main, extra))) == ["n0"]


def test_a_group_that_stands_in_two_racks_does_not_keep_another_from_its_place() -> None:
    snapshot = snapshot_of(node("n0", rack="r0"), node("n1", rack="r1"), node("n2", rack="r1"))
    router = Group("router", (), 2, Pack(required=RACK), placed=("n0", "n1"))
    assert placer(snapshot).place(gang("g", router, group("worker", 1))) is not None


def test_what_a_group_has_beyond_nothing_stands_in_one_rack_where_there_is_one() -> None:
    snapshot = racks(2)
    extra = group("extra", 3, 0, pack=Pack(required=RACK))
    where = names(snapshot, placer(snapshot).place(gang("g", group("main", 1), extra)))
    assert len(where) == 4
    assert len({name[:2] for name in where[1:]}) == 1


def test_a_resource_that_nobody_has_heard_of_is_a_resource_that_nobody_has() -> None:
    odd = replace(shape(0), requests=(*shape(0).requests, ("example.com/unheard-of", 1)))
    wanted = gang("g", group("a", 1), group("b", 1, of=odd))
    assert placer(racks(1)).place(wanted) is None
