"""Fleet files: valid content, error messages, and the topology of nodes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.simnodes import Fleet, FleetError, read_fleet
from kilonova.local.simnodes.fleet.model import NodeGroup, iter_fleet_nodes, parse_delay

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "fleet.yaml"
        path.write_text(text)
        return path

    return write


def test_the_example_can_be_read() -> None:
    fleet = read_fleet(Path(__file__).parents[4] / "examples" / "fleet.yaml")
    assert [group.name for group in fleet.nodes] == ["h100", "nvl72", "a100", "l4", "cpu"]


@pytest.mark.parametrize("text", ["", "{}", "nodes: []"])
def test_an_empty_file_is_an_empty_fleet(write: Write, text: str) -> None:
    assert list(iter_fleet_nodes(read_fleet(write(text)))) == []


def test_amounts_may_be_numbers(write: Write) -> None:
    fleet = read_fleet(write("nodes: [{name: a, cpu: 64, memory: 1024}]"))
    assert fleet.nodes[0].cpu == 64


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "is not YAML"),
        ("- a", "the file: its content is invalid: write fields with values"),
        ("node: []", "node: unknown field: choose from nodes, seed, heartbeat"),
        ("nodes: {}", "nodes: an object is invalid: write a list"),
        ("nodes: [{}]", "nodes[0].name: is missing"),
        ("nodes: [{name: a, racs: 2}]", "nodes[0].racs: unknown field: choose from name"),
        ("nodes: [{name: a, count: many}]", "nodes[0].count: 'many' is invalid: write a whole"),
        ("nodes: [{name: a, count: -1}]", "nodes[0].count: -1 is too small: write 0 or more"),
        ("nodes: [{name: a, count: 99999}]", "99999 nodes exceed the maximum"),
        ("nodes: [{name: A_b}]", 'nodes[0].name: "A_b": a lowercase RFC 1123 subdomain'),
        (f"nodes: [{{name: {'a' * 62}}}]", "must be no more than 63"),
        ("nodes: [{name: a}, {name: a}]", 'nodes[1].name: "a" is used twice'),
        ("nodes: [{name: a, pods: 300}]", "nodes[0].pods: 300 is not between 1 and 254"),
        ("nodes: [{name: a, zones: []}]", "nodes[0].zones: [] is empty"),
        ("nodes: [{name: a, zones: ['a b']}]", 'nodes[0].zones: "a b" is not a label value'),
        ("nodes: [{name: a, zones: [1]}]", "is invalid: write text, in quotes"),
        ("nodes: [{name: a, zones: [x, y], blocks: 1}]", "nodes[0].blocks: 1 is fewer than the 2"),
        ("nodes: [{name: a, blocks: 4, racks: 2}]", "nodes[0].racks: 2 is fewer than the 4 blocks"),
        ("nodes: [{name: a, racks: 0}]", "nodes[0].racks: 0 is fewer than the 1 blocks"),
        ("nodes: [{name: a, cpu: fast}]", 'nodes[0].cpu: "fast" is not a quantity'),
        ("nodes: [{name: a, memory: -1Gi}]", 'nodes[0].memory: "-1Gi" is negative'),
        ("nodes: [{name: a, gpu: {model: x}}]", "nodes[0].gpu.count: is missing"),
        ("nodes: [{name: a, gpu: {model: x, count: 0}}]", "nodes[0].gpu.count: 0 is not between"),
        (
            "nodes: [{name: a, gpu: {model: My GPU, count: 1}}]",
            'nodes[0].gpu.model: "My GPU" is not a label value',
        ),
        (
            "nodes: [{name: a, gpu: {model: x, count: 1, memory: lots}}]",
            'nodes[0].gpu.memory: "lots" is not a quantity',
        ),
        ("nodes: [{name: a, labels: {x: 1}}]", "nodes[0].labels[...]: an object is invalid"),
        ("nodes: [{name: a, labels: {x: a b}}]", 'nodes[0].labels.x: "a b"'),
        ("nodes: [{name: a, labels: {'x y': a}}]", 'nodes[0].labels: "x y"'),
        ("nodes: [{name: a, taints: [{key: x}]}]", "nodes[0].taints[0].effect: is missing"),
        (
            "nodes: [{name: a, taints: [{key: x, effect: Never}]}]",
            "'Never' is invalid: choose from NoSchedule, PreferNoSchedule, NoExecute",
        ),
        (
            "nodes: [{name: a, gpu: {model: x, count: 1, topology: ring}}]",
            "nodes[0].gpu.topology: 'ring' is invalid: choose from by-model, none",
        ),
        ("nodes: [{name: a, start: 5}]", "nodes[0].start: 5 is invalid: write text"),
        ("nodes: [{name: a, start: 5 s}]", 'nodes[0].start: "5 s" is not a duration: write 500ms'),
        ("nodes: [{name: a, boot: 5}]", "nodes[0].boot: 5 is invalid: write text"),
        ("nodes: [{name: a, boot: later}]", 'nodes[0].boot: "later" is not a duration'),
        ("nodes: [{name: a, price: 20000}]", "nodes[0].price: 20000.0 is not between 0 and 10,000"),
        (
            "nodes: [{name: a, machine: p5.99xlarge}]",
            'nodes[0].machine: "p5.99xlarge" is not a machine type of the catalog: write one that '
            "`kilonova catalog machines` lists",
        ),
        ("nodes: [{name: a, market: black}]", "'black' is invalid: choose from on-demand, spot"),
        (
            "nodes: [{name: a, failures: {interruptionMTBF: 0s}}]",
            'interruptionMTBF: "0s" must be greater than zero',
        ),
        (
            "nodes: [{name: a, failures: {interruptionNotice: x}}]",
            'nodes[0].failures.interruptionNotice: "x" is not a duration',
        ),
        ("capacity: [{limit: -1}]", "capacity[0].limit: -1 is too small: write 0 or more"),
        ("capacity: [{for: soon}]", 'capacity[0].for: "soon" is not a duration'),
        ("capacity: [{size: 1}]", "capacity[0].size: unknown field: choose from machine, zone"),
        (
            "script: [{after: 1s, action: interruption, target: b-0}]\nnodes: [{name: a}]",
            'script[0].target: "b-0" is not a node of this fleet',
        ),
        ("nodes: [{name: a, stop: 5s-1s}]", 'nodes[0].stop: "5s-1s" has bounds in the wrong order'),
        ("nodes: [{name: a, failures: {podStart: 2}}]", "nodes[0].failures.podStart: 2.0 is not"),
        ("nodes: [{name: a, failures: {podMTBF: 0s}}]", 'podMTBF: "0s" must be greater than zero'),
        ("nodes: [{name: a, failures: {outage: soon}}]", 'nodes[0].failures.outage: "soon"'),
        ("nodes: [{name: a, pull: slow}]", 'nodes[0].pull: "slow" is not a duration'),
        ("nodes: [{name: a, failures: {imagePull: -1}}]", "failures.imagePull: -1.0 is not"),
        ("nodes: [{name: a, failures: {gpuMTBF: x}}]", 'nodes[0].failures.gpuMTBF: "x" is not'),
        ("zoneFailures: {mtbf: 0s}", 'zoneFailures.mtbf: "0s" must be greater than zero'),
        ("zoneFailures: {mtb: 1s}", "zoneFailures.mtb: unknown field: choose from mtbf"),
        ("script: [{action: drain, target: a-0}]", "script[0].after: is missing"),
        ("script: [{after: 1s, action: dance, target: a-0}]", "'dance' is invalid: choose"),
        (
            "{nodes: [{name: a}], script: [{after: 1s, action: drain, target: b-0}]}",
            'script[0].target: "b-0" is not a node of this fleet',
        ),
        (
            "{nodes: [{name: a}], script: [{after: 1s, action: zone-outage, target: a-0}]}",
            'script[0].target: "a-0" is not a zone: choose from zone-a',
        ),
        (
            "{nodes: [{name: a}], script: [{after: 1s, action: gpu-lost, target: a-0/0}]}",
            'script[0].target: "a-0/0" is not a GPU of a node: write NODE/INDEX',
        ),
        (
            "{nodes: [{name: a}], script: [{after: 1s, action: pull-errors, target: b}]}",
            'script[0].target: "b" is neither a node nor a zone',
        ),
        (
            "{nodes: [{name: a}], script: [{after: now, action: drain, target: a-0}]}",
            'script[0].after: "now" is not a duration',
        ),
        ("heartbeat: 0s", 'heartbeat: "0s" must be greater than zero: write 500ms, 2s, 5m or 1h'),
    ],
)
def test_error_names_the_field(write: Write, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(FleetError) as caught:
        read_fleet(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"none\.yaml cannot be read: No such file"):
        read_fleet(tmp_path / "none.yaml")


def test_nodes_of_a_rack_are_adjacent() -> None:
    group = NodeGroup("n", 8, zones=("a", "b"), blocks=2, racks=4)
    places = [(n.zone, n.block[-1], n.rack[-1]) for n in iter_fleet_nodes(Fleet(nodes=(group,)))]
    assert places == [
        ("a", "0", "0"),
        ("a", "0", "0"),
        ("a", "0", "1"),
        ("a", "0", "1"),
        ("b", "1", "2"),
        ("b", "1", "2"),
        ("b", "1", "3"),
        ("b", "1", "3"),
    ]


@given(
    st.integers(1, 40),
    st.integers(1, 4).flatmap(
        lambda zones: st.integers(zones, 8).flatmap(
            lambda blocks: st.integers(blocks, 12).map(lambda racks: (zones, blocks, racks))
        )
    ),
)
def test_every_rack_is_in_one_block_and_every_block_in_one_zone(
    count: int, layout: tuple[int, int, int]
) -> None:
    zones, blocks, racks = layout
    names = tuple(f"z{number}" for number in range(zones))
    group = NodeGroup("n", count, zones=names, blocks=blocks, racks=racks)
    nodes = list(iter_fleet_nodes(Fleet(nodes=(group,))))
    assert len({(node.rack, node.block) for node in nodes}) == len({node.rack for node in nodes})
    assert len({(node.block, node.zone) for node in nodes}) == len({node.block for node in nodes})
    sizes = [sum(node.rack == rack for node in nodes) for rack in {node.rack for node in nodes}]
    assert max(sizes) - min(sizes) <= 1


def test_numbers_of_blocks_and_racks_follow_the_zones_where_none_are_given() -> None:
    group = NodeGroup("n", 4, zones=("a", "b"))
    assert len({node.rack for node in iter_fleet_nodes(Fleet(nodes=(group,)))}) == 2


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("2s", 2, 2), ("500ms-1s", 0.5, 1), ("0s", 0, 0), ("1.5m-1h", 90, 3600)],
)
def test_delays(text: str, low: float, high: float) -> None:
    assert (parse_delay(text).low, parse_delay(text).high) == (low, high)


@pytest.mark.parametrize(
    ("count", "asked", "seconds"),
    [(0, None, 10), (2000, None, 10), (5000, None, 25), (30000, None, 30), (30000, "10s", 10)],
)
def test_large_fleet_has_a_longer_default_heartbeat(
    count: int, asked: str | None, seconds: float
) -> None:
    assert Fleet((NodeGroup("n", count),), heartbeat=asked).heartbeat_seconds == seconds
