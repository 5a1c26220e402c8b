"""Built-in fleets, and the error for an unknown name."""

from collections import Counter
from pathlib import Path

import pytest

from kilonova.catalog.gpu_features import NVLINK_DOMAIN
from kilonova.local.simnodes import FleetError, load_fleet
from kilonova.local.simnodes.fleet.model import FleetNode, iter_fleet_nodes
from kilonova.local.simnodes.objects import build_node_labels


def nodes_of(name: str, group: str) -> list[FleetNode]:
    return [each for each in iter_fleet_nodes(load_fleet(name)) if each.group.name == group]


def test_the_small_fleet_has_three_kinds_of_topology_in_two_zones() -> None:
    nodes = list(iter_fleet_nodes(load_fleet("small")))
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
    small, large = (list(iter_fleet_nodes(load_fleet(name))) for name in ("small", "large"))
    assert len(large) == 2000
    assert {each.group.name for each in large} == {each.group.name for each in small}
    assert len({each.zone for each in large}) == 3


@pytest.mark.parametrize("name", ["small", "large"])
def test_every_rack_of_gb200_is_an_nvlink_domain_of_its_own(name: str) -> None:
    domains = Counter(
        (each.rack, build_node_labels(each)[NVLINK_DOMAIN]) for each in nodes_of(name, "nvl72")
    )
    assert set(domains.values()) == {18}
    assert len({domain for _, domain in domains}) == len(domains)


def test_machines_whose_nvlink_ends_at_the_board_are_in_no_domain() -> None:
    assert not any(NVLINK_DOMAIN in build_node_labels(each) for each in nodes_of("small", "h100"))


def test_unknown_preset_lists_the_choices(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"smal cannot be read: .*small, large or the path"):
        load_fleet(str(tmp_path / "smal"))
