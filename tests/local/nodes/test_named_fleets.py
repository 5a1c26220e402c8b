"""Fleets that need no file, and what is said of a name that is none."""

from collections import Counter
from pathlib import Path

import pytest

from kilonova.local.nodes import FleetError, fleet_called
from kilonova.local.nodes.fleet import NodeShape, shapes
from kilonova.local.nodes.objects import NVLINK_DOMAIN, node_labels


def nodes_of(name: str, group: str) -> list[NodeShape]:
    return [each for each in shapes(fleet_called(name)) if each.group.name == group]


def test_the_small_fleet_has_three_kinds_of_topology_in_two_zones() -> None:
    nodes = list(shapes(fleet_called("small")))
    assert Counter(each.group.name for each in nodes) == {
        "h100": 8,
        "nvl72": 18,
        "a100": 4,
        "l4": 4,
    }
    assert Counter(each.rack for each in nodes_of("small", "h100")) == {
        "h100-rack-0": 4,
        "h100-rack-1": 4,
    }
    assert {each.zone for each in nodes} == {"zone-a", "zone-b"}


def test_the_large_fleet_has_two_thousand_nodes_of_the_same_kinds() -> None:
    small, large = (list(shapes(fleet_called(name))) for name in ("small", "large"))
    assert len(large) == 2000
    assert {each.group.name for each in large} == {each.group.name for each in small}
    assert len({each.zone for each in large}) == 3


@pytest.mark.parametrize("name", ["small", "large"])
def test_every_rack_of_gb200_is_an_nvlink_domain_of_its_own(name: str) -> None:
    domains = Counter(
        (each.rack, node_labels(each)[NVLINK_DOMAIN]) for each in nodes_of(name, "nvl72")
    )
    assert set(domains.values()) == {18}
    assert len({domain for _, domain in domains}) == len(domains)


def test_machines_whose_nvlink_ends_at_the_board_are_in_no_domain() -> None:
    assert not any(NVLINK_DOMAIN in node_labels(each) for each in nodes_of("small", "h100"))


def test_a_name_that_is_no_fleet_is_told_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"smal cannot be read: .*small, large or the path"):
        fleet_called(str(tmp_path / "smal"))
