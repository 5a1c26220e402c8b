"""The matrix of paths, and the bandwidth of sets of devices."""

import pytest

from kilonova.gpu.devices.model import Device, DevicePath, NodeInventory, PathKind
from kilonova.gpu.topology.bandwidth import direct_links, set_bandwidth, switch_ports
from kilonova.gpu.topology.matrix import LEGEND, build_matrix, kind_of_label, label_path
from tests.gpu.devices.machines import first_uuid, simulate


def inventory_of(persona: str) -> NodeInventory:
    return simulate(persona).read_inventory()


def test_matrix_is_symmetric_with_itself_on_the_diagonal() -> None:
    rows = build_matrix(inventory_of("mixed"))
    for row in rows:
        assert row.paths[row.index] == "X"
        for other in rows:
            assert row.paths[other.index] == other.paths[row.index]


@pytest.mark.parametrize(
    ("persona", "labels"),
    [
        ("h100", {"X", "NV18"}),
        ("a100-80:4", {"X", "NV4"}),
        ("gb200-nvl72", {"X", "NV18"}),
        ("l40s:4", {"X", "NODE", "SYS"}),
        ("mixed", {"X", "NV12", "NODE", "SYS"}),
        ("V100-SXM2-16GB:8", {"X", "NV1", "NV2", "PIX", "NODE", "SYS"}),
        ("t4:1", {"X"}),
    ],
)
def test_machines_have_their_paths(persona: str, labels: set[str]) -> None:
    found = {label for row in build_matrix(inventory_of(persona)) for label in row.paths}
    assert found <= labels
    assert {label for label in labels if label.startswith("NV")} <= found


@pytest.mark.parametrize("kind", PathKind)
def test_label_names_its_kind(kind: PathKind) -> None:
    assert kind_of_label(label_path(DevicePath(0, 1, kind, nvlinks=12))) is kind


def test_every_kind_but_self_is_in_the_legend() -> None:
    assert set(LEGEND) == set(PathKind) - {PathKind.SELF}


def test_path_that_is_not_reported_is_unknown() -> None:
    rows = build_matrix(NodeInventory((Device(0, "GPU-a"), Device(3, "GPU-b"))))
    assert [(row.index, row.paths) for row in rows] == [(0, ("X", "?")), (3, ("?", "X"))]
    assert kind_of_label("?") is None


def test_port_to_a_switch_is_shared_by_all() -> None:
    """900 GB/s of an H100 are its port, not what it has with each of seven others."""
    inventory = inventory_of("h100")
    assert switch_ports(inventory) == (900,) * 8
    assert direct_links(inventory) == ()
    assert set_bandwidth(inventory, range(8)) == 900
    assert set_bandwidth(inventory, (2, 5)) == 900


def test_direct_links_belong_to_two_devices() -> None:
    inventory = inventory_of("a100-80:4")
    assert switch_ports(inventory) == (0,) * 4
    assert set_bandwidth(inventory, (0, 1)) == 200
    assert set_bandwidth(inventory, range(4)) == 600


def test_set_without_nvlink_has_no_bandwidth() -> None:
    assert set_bandwidth(inventory_of("l40s:4"), range(4)) == 0
    assert set_bandwidth(inventory_of("mixed"), (0, 1, 2)) == 0
    assert set_bandwidth(inventory_of("mixed"), (0, 1)) == 600


def test_one_device_has_nobody_to_talk_to() -> None:
    assert set_bandwidth(inventory_of("h100"), (3,)) is None


def test_device_in_mig_mode_has_no_port() -> None:
    backend = simulate("h200:2")
    backend.set_mig_mode(first_uuid(backend), True)
    assert set_bandwidth(backend.read_inventory(), (0, 1)) == 0
