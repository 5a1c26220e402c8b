"""Annotations about GPUs: what is written reads back, and nonsense is named."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api.gpus import (
    DEVICES,
    TOPOLOGY,
    Assignment,
    Gpu,
    MigProfile,
    Topology,
    Unreadable,
    print_devices,
    print_topology,
    read_devices,
    read_topology,
)

indices = st.integers(0, 63)
assignments = st.one_of(
    st.builds(Assignment, indices, st.integers(1, 1000)),
    st.builds(
        Assignment,
        indices,
        st.just(0),
        st.sampled_from(["1g.10gb", "1g.10gb+me", "7g.141gb", "1g.24gb-me", "1g.24gb+me.all"]),
        st.integers(0, 7),
    ),
)
counts = st.integers(0, 1 << 20)
gpus = st.builds(
    Gpu,
    uuid=st.text(max_size=8),
    product=st.none() | st.text(max_size=8),
    memory=st.none() | counts,
    port=st.none() | counts,
    mig=st.none() | st.text(max_size=8),
    numa=st.integers(-1, 7),
    pcie=st.text(max_size=8),
    healthy=st.booleans(),
)
topologies = st.builds(
    Topology,
    gpus=st.lists(gpus, max_size=8).map(tuple),
    links=st.lists(st.tuples(indices, indices, counts), max_size=4).map(tuple),
    product=st.text(max_size=8),
    memory=counts,
    geometries=st.dictionaries(
        st.text(max_size=4),
        st.lists(
            st.builds(MigProfile, st.text(max_size=8), counts, st.just((0, 4)), counts), max_size=2
        ).map(tuple),
        max_size=2,
    ),
)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", ()),
        ("0,1", (Assignment(0), Assignment(1))),
        ("3:500", (Assignment(3, 500),)),
        ("2:1g.10gb@4", (Assignment(2, 0, "1g.10gb", 4),)),
        (
            "2:1g.10gb+me@4,5:1g.24gb-me@0",
            (Assignment(2, 0, "1g.10gb+me", 4), Assignment(5, 0, "1g.24gb-me", 0)),
        ),
    ],
)
def test_what_a_pod_is_given(text: str, given: tuple[Assignment, ...]) -> None:
    assert read_devices(text) == given
    assert print_devices(given) == text


def test_spaces_and_a_full_share_are_read_too() -> None:
    assert read_devices(" 0 , 1:1000 ") == (Assignment(0), Assignment(1))


@pytest.mark.parametrize(
    "text",
    ["a", "0,", "-1", "0:", "0:0", "0:1001", "0:1g.10gb", "0:1g.10gb@", "0:1g.10gb@12", "0;1", "٣"],
)
def test_what_is_no_assignment_is_named(text: str) -> None:
    answer = read_devices(text)
    assert isinstance(answer, Unreadable)
    assert answer.annotation == DEVICES
    assert repr(text.split(",")[-1]) in answer.problem


@given(st.lists(assignments, max_size=16).map(tuple))
def test_assignments_read_back(given: tuple[Assignment, ...]) -> None:
    assert read_devices(print_devices(given)) == given


@given(st.text())
def test_no_text_breaks_the_reader_of_assignments(text: str) -> None:
    assert isinstance(read_devices(text), tuple | Unreadable)


@given(topologies)
def test_a_topology_reads_back(topology: Topology) -> None:
    assert read_topology(print_topology(topology)) == topology


def test_a_topology_is_written_short() -> None:
    topology = Topology((Gpu(numa=0), Gpu(numa=0)), ((0, 1, 600),), memory=81920)
    assert print_topology(topology) == (
        '{"gpus":[{"numa":0},{"numa":0}],"links":[[0,1,600]],"memory":81920}'
    )


def test_what_is_not_known_is_ignored() -> None:
    assert read_topology('{"gpus":[{"colour":"red"}],"fans":[1,{}]}') == Topology((Gpu(),))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field `gpus`"),
        ('{"gpus":{}}', "$.gpus"),
        ('{"gpus":[{"memory":"80GB"}]}', "$.gpus[0].memory"),
        ('{"gpus":[{"memory":-1}]}', "$.gpus[0].memory"),
        ('{"gpus":[],"memory":1000000000000000000000}', "$.memory"),
        ('{"gpus":[],"links":[[0,1]]}', "$.links[0]"),
        ('{"gpus":[' + ",".join(["{}"] * 65) + "]}", "$.gpus"),
        ('{"gpus":[],"x":' + "[" * 100_000, ""),
        ('{"gpus":[{"uuid":"\ud800"}]}', "surrogates"),
    ],
)
def test_a_bad_topology_is_named(text: str, complaint: str) -> None:
    answer = read_topology(text)
    assert isinstance(answer, Unreadable)
    assert complaint in answer.problem
    assert str(answer).startswith(f"annotation {TOPOLOGY}: ")


@given(st.text())
@example("\x00")
def test_no_text_breaks_the_reader_of_topologies(text: str) -> None:
    assert isinstance(read_topology(text), Topology | Unreadable)
