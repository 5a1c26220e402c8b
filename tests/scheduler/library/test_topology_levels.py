"""Levels of a topology, and domains in it."""

import pytest

from kilonova.scheduler.library.topology_levels import (
    DomainPath,
    common_domain,
    domain_path,
    find_topology_levels,
    format_domain,
)

ZONE, BLOCK, RACK = "topology.kubernetes.io/zone", "kilonova.dev/block", "example.com/rack"


@pytest.mark.parametrize(
    ("nodes", "levels"),
    [
        ([], ()),
        ([{"kubernetes.io/hostname": "a", "team": "x"}], ()),
        ([{RACK: "r1", ZONE: "a", BLOCK: "b"}], (ZONE, BLOCK, RACK)),
        (
            [{RACK: "r1"}, {"topology.kubernetes.io/region": "eu"}],
            ("topology.kubernetes.io/region", RACK),
        ),
        (
            [{f"topology.k8s.aws/network-node-layer-{n}": "nn" for n in (3, 1, 2)}],
            tuple(f"topology.k8s.aws/network-node-layer-{n}" for n in (1, 2, 3)),
        ),
        (
            [
                {
                    "cloud.google.com/gce-topology-subblock": "s",
                    "cloud.google.com/gce-topology-block": "b",
                }
            ],
            ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
        ),
    ],
)
def test_levels_of_nodes(nodes: list[dict[str, str]], levels: tuple[str, ...]):
    assert find_topology_levels(nodes) == levels


@pytest.mark.parametrize(
    ("paths", "domain"),
    [
        ([], ()),
        ([("a", "b1", "r1")], ("a", "b1", "r1")),
        ([("a", "b1", "r1"), ("a", "b1", "r2")], ("a", "b1")),
        ([("a", "b1", "r1"), ("a", "b2", "r1")], ("a",)),
        ([("a", "b1"), ("c", "b1")], ()),
        ([("a", "b1", "r1"), ("a", "b2", "r1"), ("a", "b1", "r1")], ("a",)),
        ([("a", "b1"), ("c", "b1"), ("a", "b1")], ()),
        ([("", "b1", "r1"), ("", "b1", "r2")], ("", "b1")),
        ([("a", "", ""), ("a", "", "")], ("a",)),
        ([("a", "", "r1"), ("a", "", "r1")], ("a", "", "r1")),
    ],
)
def test_common_domain(paths: list[DomainPath], domain: DomainPath):
    assert common_domain(paths) == domain


def test_missing_levels_are_left_out_of_paths():
    path = domain_path({ZONE: "a", RACK: "r1"}, (ZONE, BLOCK, RACK))
    assert path == ("a", "", "r1")
    assert format_domain(path) == "a/r1"
