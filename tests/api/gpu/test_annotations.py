"""GPU annotations: valid ones round-trip, invalid ones are reported."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api.gpu.annotations import (
    DEVICES,
    TOPOLOGY,
    DeviceAssignment,
    Gpu,
    InvalidAnnotation,
    MigInstance,
    ReportedMigProfile,
    Topology,
    format_devices,
    format_topology,
    normalize_pci_address,
    parse_devices,
    parse_topology,
)

indices = st.integers(0, 63)
assignments = st.one_of(
    st.builds(DeviceAssignment, indices, st.integers(1, 1000)),
    st.builds(
        DeviceAssignment,
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
            st.builds(ReportedMigProfile, st.text(max_size=8), counts, st.just((0, 4)), counts),
            max_size=2,
        ).map(tuple),
        max_size=2,
    ),
)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", ()),
        ("0,1", (DeviceAssignment(0), DeviceAssignment(1))),
        ("3:500", (DeviceAssignment(3, 500),)),
        ("3:500/250", (DeviceAssignment(3, 500, memory=250),)),
        ("2:1g.10gb@4", (DeviceAssignment(2, 0, "1g.10gb", 4),)),
        (
            "2:1g.10gb+me@4,5:1g.24gb-me@0",
            (DeviceAssignment(2, 0, "1g.10gb+me", 4), DeviceAssignment(5, 0, "1g.24gb-me", 0)),
        ),
    ],
)
def test_device_assignments_are_parsed(text: str, given: tuple[DeviceAssignment, ...]) -> None:
    assert parse_devices(text) == given
    assert format_devices(given) == text


def test_spaces_and_full_shares_are_parsed() -> None:
    assert parse_devices(" 0 , 1:1000 ") == (DeviceAssignment(0), DeviceAssignment(1))


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "0,",
        "-1",
        "0:",
        "0:0",
        "0:1001",
        "0:1/",
        "0:1/0",
        "0:/5",
        "0:1g.10gb",
        "0:1g.10gb@",
        "0:1g.10gb@12",
        "0;1",
        "٣",
    ],
)
def test_invalid_assignment_is_reported(text: str) -> None:
    response = parse_devices(text)
    assert isinstance(response, InvalidAnnotation)
    assert response.annotation == DEVICES
    assert repr(text.split(",")[-1]) in response.problem


@given(st.lists(assignments, max_size=16).map(tuple))
def test_assignments_round_trip(given: tuple[DeviceAssignment, ...]) -> None:
    assert parse_devices(format_devices(given)) == given


@given(st.text())
def test_assignment_parser_accepts_any_text(text: str) -> None:
    assert isinstance(parse_devices(text), tuple | InvalidAnnotation)


@given(topologies)
def test_topology_round_trips(topology: Topology) -> None:
    assert parse_topology(format_topology(topology)) == topology


def test_topology_is_formatted_compactly() -> None:
    topology = Topology((Gpu(numa=0), Gpu(numa=0)), ((0, 1, 600),), memory=81920)
    assert format_topology(topology) == (
        '{"gpus":[{"numa":0},{"numa":0}],"links":[[0,1,600]],"memory":81920}'
    )


def test_unknown_fields_are_ignored() -> None:
    assert parse_topology('{"gpus":[{"colour":"red"}],"fans":[1,{}]}') == Topology((Gpu(),))


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
def test_invalid_topology_is_reported(text: str, complaint: str) -> None:
    response = parse_topology(text)
    assert isinstance(response, InvalidAnnotation)
    assert complaint in response.problem
    assert str(response).startswith(f"annotation {TOPOLOGY}: ")


@given(st.text())
@example("\x00")
def test_topology_parser_accepts_any_text(text: str) -> None:
    assert isinstance(parse_topology(text), Topology | InvalidAnnotation)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:18:00.0", "0000:18:00.0"),
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("1b:00.1", "0000:1b:00.1"),
        ("00010000:1b:00.0", "10000:1b:00.0"),
        ("", ""),
        ("Somewhere", "somewhere"),
    ],
)
def test_pci_addresses_have_one_form(text: str, expected: str) -> None:
    assert normalize_pci_address(text) == expected


def test_topology_of_an_agent_is_parsed() -> None:
    text = (
        '{"gpus":[{"uuid":"GPU-a","pci":"0000:18:00.0","migEnabled":true,'
        '"instances":[{"uuid":"MIG-b","profile":"1g.10gb","start":4}]},'
        '{"healthy":false,"reason":"Xid 79"}],"sms":132}'
    )
    instance = MigInstance("MIG-b", "1g.10gb", 4)
    expected = Topology(
        (
            Gpu("GPU-a", pci="0000:18:00.0", mig_enabled=True, instances=(instance,)),
            Gpu(healthy=False, reason="Xid 79"),
        ),
        sms=132,
    )
    assert parse_topology(text) == expected
    assert format_topology(expected) == text
