"""PodGangs: who is placed with whom, and where."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import PodCliqueSet
from kilonova.api.grove.topology import Apart, Pack, SetTopologyConstraint, TopologyConstraint
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.gangs import CliquePods, gang_objects
from kilonova.workloads.templates.topology import Levels, levels_of
from tests.workloads.builders import (
    SETTINGS,
    clique,
    group,
    made,
    pod_clique_set,
    pod_template,
    topology,
)

RACKS = topology("t", zone="example.com/zone", block="example.com/block", rack="example.com/rack")


def system(**fields: Any) -> PodCliqueSet:
    """pc-a:2/1 and sg-x:3/1 of pc-b:1/1 and pc-c:3/1."""
    of_parts = {each: fields.pop(each, None) for each in ("pc_a", "pc_c", "sg_x")}
    return pod_clique_set(
        clique("pc-a", 2, 1, topology_constraint=of_parts["pc_a"]),
        clique("pc-b"),
        clique("pc-c", 3, 1, topology_constraint=of_parts["pc_c"]),
        groups=[group("sg-x", "pc-b", "pc-c", replicas=3, topology_constraint=of_parts["sg_x"])],
        **fields,
    )


def cliques(group_replicas: int, gangs: Sequence[str] = ()) -> list[CliquePods]:
    result = [CliquePods("sys-0-pc-a", "sys-0", 1, ("a-2", "a-1"))]
    for index in range(group_replicas):
        gang = "sys-0" if index == 0 else f"sys-0-sg-x-{index - 1}"
        for name in ("pc-b", "pc-c"):
            full = f"sys-0-sg-x-{index}-{name}"
            result.append(CliquePods(full, gang, 1, (f"{full}-p",), "sys-0-sg-x", index))
    return result


def gangs(
    set_: PodCliqueSet,
    group_replicas: int = 2,
    levels: Levels | None = None,
    settings: Settings = SETTINGS,
) -> dict[str, JsonObject]:
    found = gang_objects(
        set_,
        0,
        cliques(group_replicas),
        {"sys-0-sg-x": group_replicas},
        levels_of(set_, {"t": RACKS}) if levels is None else levels,
        settings,
    )
    for each in found:
        assert made(each, PodGang).metadata.name == each["metadata"]["name"]
    return {each["metadata"]["name"]: each for each in found}


def groups_of(gang: JsonObject) -> list[str]:
    return [each["name"] for each in gang["spec"]["podgroups"]]


def required(domain: str) -> TopologyConstraint:
    return TopologyConstraint("t", Pack(required=domain))


def pack(**keys: str) -> JsonObject:
    return {"packConstraint": {side: f"example.com/{key}" for side, key in keys.items()}}


def test_the_base_gang_holds_what_must_be_and_each_further_replica_is_a_gang() -> None:
    found = gangs(system(), 3)

    assert {name: groups_of(each) for name, each in found.items()} == {
        "sys-0": ["sys-0-pc-a", "sys-0-sg-x-0-pc-b", "sys-0-sg-x-0-pc-c"],
        "sys-0-sg-x-0": ["sys-0-sg-x-1-pc-b", "sys-0-sg-x-1-pc-c"],
        "sys-0-sg-x-1": ["sys-0-sg-x-2-pc-b", "sys-0-sg-x-2-pc-c"],
    }
    assert "baseRef" not in found["sys-0"]["spec"]
    for name in ("sys-0-sg-x-0", "sys-0-sg-x-1"):
        assert found[name]["spec"]["baseRef"] == {"namespace": "default", "name": "sys-0"}


def test_a_pod_group_lists_its_pods_in_order() -> None:
    first, *_ = gangs(system())["sys-0"]["spec"]["podgroups"]

    assert first == {
        "name": "sys-0-pc-a",
        "podReferences": [
            {"namespace": "default", "name": "a-1"},
            {"namespace": "default", "name": "a-2"},
        ],
        "minReplicas": 1,
    }


def test_cliques_of_replicas_that_are_no_more_are_left_out() -> None:
    set_ = system()

    (base,) = gang_objects(set_, 0, cliques(3), {"sys-0-sg-x": 1}, Levels(), SETTINGS)

    assert groups_of(base) == ["sys-0-pc-a", "sys-0-sg-x-0-pc-b", "sys-0-sg-x-0-pc-c"]


def test_a_gang_is_there_before_its_cliques() -> None:
    found = gang_objects(system(), 0, [], {"sys-0-sg-x": 2}, Levels(), SETTINGS)

    assert [each["metadata"]["name"] for each in found] == ["sys-0", "sys-0-sg-x-0"]
    assert all(each["spec"] == {**each["spec"], "podgroups": []} for each in found)


def test_a_gang_carries_what_people_wrote_on_the_set() -> None:
    set_ = system(
        labels={"team": "x", "grove.io/odd": "y", names.PART_OF: "z"},
        annotations={
            "note": "n",
            names.UNPROTECTED: "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "meta.helm.sh/release-name": "r",
            "argocd.argoproj.io/tracking-id": "t",
        },
    )

    base = gangs(set_)["sys-0"]["metadata"]

    assert base["labels"] == {
        "team": "x",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "sys",
        "app.kubernetes.io/name": "sys-0",
        "app.kubernetes.io/component": "podgang",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/scheduler-name": "default-scheduler",
    }
    assert base["annotations"] == {
        "note": "n",
        names.NOTE: '{"labels":["team"],"annotations":["note"]}',
    }
    (owner,) = base["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodCliqueSet", "sys")


@pytest.mark.parametrize(("own", "expected"), [({}, "x"), ({"schedulerName": "y"}, "y")])
def test_a_gang_says_who_places_it(own: dict[str, Any], expected: str) -> None:
    set_ = pod_clique_set(clique("worker", pod_spec=pod_template(**own)))

    (base,) = gang_objects(set_, 0, [], {}, Levels(), Settings(schedulers=("x", "y")))

    assert base["metadata"]["labels"][names.SCHEDULER_NAME] == expected


def test_the_priority_class_is_every_gangs() -> None:
    found = gangs(system(priority_class_name="high"), 2)

    assert {each["spec"]["priorityClassName"] for each in found.values()} == {"high"}


def test_without_constraints_a_gang_says_nothing_of_places() -> None:
    found = gangs(system(), 2)

    assert set(found["sys-0"]["spec"]) == {"podgroups"}
    assert set(found["sys-0-sg-x-0"]["spec"]) == {"podgroups", "baseRef"}
    assert "annotations" not in found["sys-0"]["metadata"]


def test_constraints_of_every_level_become_node_labels() -> None:
    set_ = system(
        topology_constraint=SetTopologyConstraint("t", Pack(required="zone", preferred="block")),
        sg_x=required("block"),
        pc_a=required("rack"),
        pc_c=TopologyConstraint("t", Pack(preferred="rack")),
    )

    found = gangs(set_, 2)

    for name, index in (("sys-0", 0), ("sys-0-sg-x-0", 1)):
        spec = found[name]["spec"]
        assert spec["topologyConstraint"] == pack(required="zone", preferred="block")
        assert spec["topologyConstraintGroupConfigs"] == [
            {
                "name": f"sys-0-sg-x-{index}",
                "podGroupNames": [f"sys-0-sg-x-{index}-pc-b", f"sys-0-sg-x-{index}-pc-c"],
                "topologyConstraint": pack(required="block"),
            }
        ]
        assert found[name]["metadata"]["annotations"][names.TOPOLOGY_NAME] == "t"
    by_name = {each["name"]: each for each in found["sys-0"]["spec"]["podgroups"]}
    assert by_name["sys-0-pc-a"]["topologyConstraint"] == pack(required="rack")
    assert by_name["sys-0-sg-x-0-pc-c"]["topologyConstraint"] == pack(preferred="rack")
    assert "topologyConstraint" not in by_name["sys-0-sg-x-0-pc-b"]


def test_each_base_replica_of_a_group_is_packed_by_itself() -> None:
    set_ = pod_clique_set(
        clique("b"),
        groups=[group("g", "b", replicas=2, min_available=2, topology_constraint=required("rack"))],
    )
    members = [
        CliquePods(f"sys-0-g-{each}-b", "sys-0", 1, (f"p{each}",), "sys-0-g", each)
        for each in range(2)
    ]

    (base,) = gang_objects(
        set_, 0, members, {"sys-0-g": 2}, levels_of(set_, {"t": RACKS}), SETTINGS
    )

    configs = base["spec"]["topologyConstraintGroupConfigs"]
    assert [(each["name"], each["podGroupNames"]) for each in configs] == [
        ("sys-0-g-0", ["sys-0-g-0-b"]),
        ("sys-0-g-1", ["sys-0-g-1-b"]),
    ]


def test_a_constraint_is_that_of_the_clique_and_not_of_one_that_ends_like_it() -> None:
    set_ = pod_clique_set(
        clique("leader-worker", topology_constraint=required("rack")),
        clique("worker", topology_constraint=required("block")),
    )
    members = [
        CliquePods("sys-0-worker", "sys-0", 1, ()),
        CliquePods("sys-0-leader-worker", "sys-0", 1, ()),
    ]

    (base,) = gang_objects(set_, 0, members, {}, levels_of(set_, {"t": RACKS}), SETTINGS)

    assert [each["topologyConstraint"] for each in base["spec"]["podgroups"]] == [
        pack(required="block"),
        pack(required="rack"),
    ]


@pytest.mark.parametrize("must", [False, True])
def test_base_gangs_of_a_set_keep_apart_and_scaled_ones_follow(must: bool) -> None:
    set_ = system(
        topology_constraint=SetTopologyConstraint("t", None, spread=Apart("block", required=must))
    )

    found = gangs(set_, 2)

    spread = found["sys-0"]["spec"]["spread"]
    assert spread["topologyKey"] == "example.com/block"
    assert spread["among"] == "app.kubernetes.io/part-of"
    assert spread.get("required", False) == must
    assert "spread" not in found["sys-0-sg-x-0"]["spec"]


TOPOLOGIES = {"t": RACKS}


@pytest.mark.parametrize(
    ("constraint", "topologies", "enabled", "status", "reason", "missing"),
    [
        (None, TOPOLOGIES, True, None, None, ()),
        (
            SetTopologyConstraint("t", Pack(required="rack")),
            TOPOLOGIES,
            True,
            "False",
            "AllClusterTopologyLevelsAvailable",
            (),
        ),
        (
            SetTopologyConstraint("t", Pack(required="rack", preferred="host")),
            TOPOLOGIES,
            True,
            "True",
            "ClusterTopologyLevelsUnavailable",
            ("host",),
        ),
        (
            SetTopologyConstraint("t", pack_domain="numa", spread=Apart("host")),
            TOPOLOGIES,
            True,
            "True",
            "ClusterTopologyLevelsUnavailable",
            ("host", "numa"),
        ),
        (
            SetTopologyConstraint("t", Pack(required="rack")),
            {},
            True,
            "Unknown",
            "ClusterTopologyNotFound",
            (),
        ),
        (
            SetTopologyConstraint("", pack_domain="rack"),
            TOPOLOGIES,
            True,
            "Unknown",
            "TopologyNameMissing",
            (),
        ),
        (
            SetTopologyConstraint("t", Pack(required="rack")),
            TOPOLOGIES,
            False,
            "Unknown",
            "TopologyAwareSchedulingDisabled",
            (),
        ),
    ],
)
def test_what_can_not_be_had_is_told_and_left_out(
    constraint: SetTopologyConstraint | None,
    topologies: Mapping[str, Any],
    enabled: bool,
    status: str | None,
    reason: str | None,
    missing: tuple[str, ...],
) -> None:
    set_ = system(topology_constraint=constraint)

    levels = levels_of(set_, topologies, enabled=enabled)

    assert (levels.reason, levels.missing) == (reason, missing)
    if status is not None:
        assert levels.unavailable == status
        assert levels.message
    spec = gangs(set_, 1, levels)["sys-0"]["spec"]
    has_rack = reason is not None and status != "Unknown" and "numa" not in missing
    assert spec.get("topologyConstraint") == (pack(required="rack") if has_rack else None)
    assert "spread" not in spec


def test_the_topology_is_the_one_that_any_part_names() -> None:
    set_ = pod_clique_set(
        clique("a", topology_constraint=TopologyConstraint("", Pack(required="zone"))),
        clique("b", topology_constraint=required("rack")),
    )

    assert levels_of(set_, TOPOLOGIES).topology == "t"


def test_a_deprecated_pack_domain_is_a_required_one() -> None:
    set_ = system(topology_constraint=SetTopologyConstraint("t", pack_domain="zone"))

    spec = gangs(set_)["sys-0"]["spec"]

    assert spec["topologyConstraint"] == pack(required="zone")
