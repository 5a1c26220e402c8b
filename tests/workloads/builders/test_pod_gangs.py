"""PodGangs: which pods are scheduled together, and their constraints."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import PodCliqueSet
from kilonova.api.grove.topology import (
    ReplicaSpread,
    SetTopologyConstraint,
    TopologyConstraint,
    TopologyPackConstraint,
)
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.workloads.builders.pod_gangs import GangMember, build_gangs
from kilonova.workloads.builders.topology_levels import ResolvedLevels, resolve_levels
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.api_objects import (
    SETTINGS,
    clique,
    decode_built,
    group,
    pod_clique_set,
    pod_template,
    topology,
)

RACKS = topology("t", zone="example.com/zone", block="example.com/block", rack="example.com/rack")


def build_set(**fields: Any) -> PodCliqueSet:
    """pc-a:2/1 and sg-x:3/1 of pc-b:1/1 and pc-c:3/1."""
    of_parts = {each: fields.pop(each, None) for each in ("pc_a", "pc_c", "sg_x")}
    return pod_clique_set(
        clique("pc-a", 2, 1, topology_constraint=of_parts["pc_a"]),
        clique("pc-b"),
        clique("pc-c", 3, 1, topology_constraint=of_parts["pc_c"]),
        groups=[group("sg-x", "pc-b", "pc-c", replicas=3, topology_constraint=of_parts["sg_x"])],
        **fields,
    )


def build_members(group_replicas: int, gangs: Sequence[str] = ()) -> list[GangMember]:
    result = [GangMember("sys-0-pc-a", "sys-0", 1, ("a-2", "a-1"))]
    for index in range(group_replicas):
        gang = "sys-0" if index == 0 else f"sys-0-sg-x-{index - 1}"
        for name in ("pc-b", "pc-c"):
            full = f"sys-0-sg-x-{index}-{name}"
            result.append(GangMember(full, gang, 1, (f"{full}-p",), "sys-0-sg-x", index))
    return result


def build_gangs_by_name(
    set_: PodCliqueSet,
    group_replicas: int = 2,
    levels: ResolvedLevels | None = None,
    settings: OperatorSettings = SETTINGS,
) -> dict[str, JsonObject]:
    found = build_gangs(
        set_,
        0,
        build_members(group_replicas),
        {"sys-0-sg-x": group_replicas},
        resolve_levels(set_, {"t": RACKS}) if levels is None else levels,
        settings,
    )
    for each in found:
        assert decode_built(each, PodGang).metadata.name == each["metadata"]["name"]
    return {each["metadata"]["name"]: each for each in found}


def list_pod_groups(gang: JsonObject) -> list[str]:
    return [each["name"] for each in gang["spec"]["podgroups"]]


def require_domain(domain: str) -> TopologyConstraint:
    return TopologyConstraint("t", TopologyPackConstraint(required=domain))


def pack_constraint(**keys: str) -> JsonObject:
    return {"packConstraint": {side: f"example.com/{key}" for side, key in keys.items()}}


def test_base_gang_has_min_available_and_each_further_replica_is_a_gang() -> None:
    found = build_gangs_by_name(build_set(), 3)

    assert {name: list_pod_groups(each) for name, each in found.items()} == {
        "sys-0": ["sys-0-pc-a", "sys-0-sg-x-0-pc-b", "sys-0-sg-x-0-pc-c"],
        "sys-0-sg-x-0": ["sys-0-sg-x-1-pc-b", "sys-0-sg-x-1-pc-c"],
        "sys-0-sg-x-1": ["sys-0-sg-x-2-pc-b", "sys-0-sg-x-2-pc-c"],
    }
    assert "baseRef" not in found["sys-0"]["spec"]
    for name in ("sys-0-sg-x-0", "sys-0-sg-x-1"):
        assert found[name]["spec"]["baseRef"] == {"namespace": "default", "name": "sys-0"}


def test_a_pod_group_lists_its_pods_in_order() -> None:
    first, *_ = build_gangs_by_name(build_set())["sys-0"]["spec"]["podgroups"]

    assert first == {
        "name": "sys-0-pc-a",
        "podReferences": [
            {"namespace": "default", "name": "a-1"},
            {"namespace": "default", "name": "a-2"},
        ],
        "minReplicas": 1,
    }


def test_cliques_of_removed_replicas_are_omitted() -> None:
    set_ = build_set()

    (base,) = build_gangs(set_, 0, build_members(3), {"sys-0-sg-x": 1}, ResolvedLevels(), SETTINGS)

    assert list_pod_groups(base) == ["sys-0-pc-a", "sys-0-sg-x-0-pc-b", "sys-0-sg-x-0-pc-c"]


def test_gang_is_built_before_its_cliques_exist() -> None:
    found = build_gangs(build_set(), 0, [], {"sys-0-sg-x": 2}, ResolvedLevels(), SETTINGS)

    assert [each["metadata"]["name"] for each in found] == ["sys-0", "sys-0-sg-x-0"]
    assert all(each["spec"] == {**each["spec"], "podgroups": []} for each in found)


def test_gang_has_labels_and_annotations_of_the_set() -> None:
    set_ = build_set(
        labels={"team": "x", "grove.io/odd": "y", names.PART_OF: "z"},
        annotations={
            "note": "n",
            names.PROTECTION_DISABLED: "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "meta.helm.sh/release-name": "r",
            "argocd.argoproj.io/tracking-id": "t",
        },
    )

    base = build_gangs_by_name(set_)["sys-0"]["metadata"]

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
        names.COPIED_KEYS: '{"labels":["team"],"annotations":["note"]}',
    }
    (owner,) = base["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodCliqueSet", "sys")


@pytest.mark.parametrize(("own", "expected"), [({}, "x"), ({"schedulerName": "y"}, "y")])
def test_a_gang_names_its_scheduler(own: dict[str, Any], expected: str) -> None:
    set_ = pod_clique_set(clique("worker", pod_spec=pod_template(**own)))

    (base,) = build_gangs(
        set_, 0, [], {}, ResolvedLevels(), OperatorSettings(schedulers=("x", "y"))
    )

    assert base["metadata"]["labels"][names.SCHEDULER_NAME] == expected


def test_every_gang_has_the_priority_class() -> None:
    found = build_gangs_by_name(build_set(priority_class_name="high"), 2)

    assert {each["spec"]["priorityClassName"] for each in found.values()} == {"high"}


def test_without_constraints_a_gang_has_no_topology_constraint() -> None:
    found = build_gangs_by_name(build_set(), 2)

    assert set(found["sys-0"]["spec"]) == {"podgroups"}
    assert set(found["sys-0-sg-x-0"]["spec"]) == {"podgroups", "baseRef"}
    assert "annotations" not in found["sys-0"]["metadata"]


def test_constraints_of_every_level_become_node_labels() -> None:
    set_ = build_set(
        topology_constraint=SetTopologyConstraint(
            "t", TopologyPackConstraint(required="zone", preferred="block")
        ),
        sg_x=require_domain("block"),
        pc_a=require_domain("rack"),
        pc_c=TopologyConstraint("t", TopologyPackConstraint(preferred="rack")),
    )

    found = build_gangs_by_name(set_, 2)

    for name, index in (("sys-0", 0), ("sys-0-sg-x-0", 1)):
        spec = found[name]["spec"]
        assert spec["topologyConstraint"] == pack_constraint(required="zone", preferred="block")
        assert spec["topologyConstraintGroupConfigs"] == [
            {
                "name": f"sys-0-sg-x-{index}",
                "podGroupNames": [f"sys-0-sg-x-{index}-pc-b", f"sys-0-sg-x-{index}-pc-c"],
                "topologyConstraint": pack_constraint(required="block"),
            }
        ]
        assert found[name]["metadata"]["annotations"][names.TOPOLOGY_NAME] == "t"
    by_name = {each["name"]: each for each in found["sys-0"]["spec"]["podgroups"]}
    assert by_name["sys-0-pc-a"]["topologyConstraint"] == pack_constraint(required="rack")
    assert by_name["sys-0-sg-x-0-pc-c"]["topologyConstraint"] == pack_constraint(preferred="rack")
    assert "topologyConstraint" not in by_name["sys-0-sg-x-0-pc-b"]


def test_each_base_replica_of_a_group_is_packed_by_itself() -> None:
    set_ = pod_clique_set(
        clique("b"),
        groups=[
            group("g", "b", replicas=2, min_available=2, topology_constraint=require_domain("rack"))
        ],
    )
    members = [
        GangMember(f"sys-0-g-{each}-b", "sys-0", 1, (f"p{each}",), "sys-0-g", each)
        for each in range(2)
    ]

    (base,) = build_gangs(
        set_, 0, members, {"sys-0-g": 2}, resolve_levels(set_, {"t": RACKS}), SETTINGS
    )

    configs = base["spec"]["topologyConstraintGroupConfigs"]
    assert [(each["name"], each["podGroupNames"]) for each in configs] == [
        ("sys-0-g-0", ["sys-0-g-0-b"]),
        ("sys-0-g-1", ["sys-0-g-1-b"]),
    ]


def test_constraint_is_not_taken_from_a_clique_with_the_same_suffix() -> None:
    set_ = pod_clique_set(
        clique("leader-worker", topology_constraint=require_domain("rack")),
        clique("worker", topology_constraint=require_domain("block")),
    )
    members = [
        GangMember("sys-0-worker", "sys-0", 1, ()),
        GangMember("sys-0-leader-worker", "sys-0", 1, ()),
    ]

    (base,) = build_gangs(set_, 0, members, {}, resolve_levels(set_, {"t": RACKS}), SETTINGS)

    assert [each["topologyConstraint"] for each in base["spec"]["podgroups"]] == [
        pack_constraint(required="block"),
        pack_constraint(required="rack"),
    ]


@pytest.mark.parametrize("must", [False, True])
def test_base_gangs_are_spread_and_scaled_gangs_follow(must: bool) -> None:
    set_ = build_set(
        topology_constraint=SetTopologyConstraint(
            "t", None, spread=ReplicaSpread("block", required=must)
        )
    )

    found = build_gangs_by_name(set_, 2)

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
            SetTopologyConstraint("t", TopologyPackConstraint(required="rack")),
            TOPOLOGIES,
            True,
            "False",
            "AllClusterTopologyLevelsAvailable",
            (),
        ),
        (
            SetTopologyConstraint("t", TopologyPackConstraint(required="rack", preferred="host")),
            TOPOLOGIES,
            True,
            "True",
            "ClusterTopologyLevelsUnavailable",
            ("host",),
        ),
        (
            SetTopologyConstraint("t", pack_domain="numa", spread=ReplicaSpread("host")),
            TOPOLOGIES,
            True,
            "True",
            "ClusterTopologyLevelsUnavailable",
            ("host", "numa"),
        ),
        (
            SetTopologyConstraint("t", TopologyPackConstraint(required="rack")),
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
            SetTopologyConstraint("t", TopologyPackConstraint(required="rack")),
            TOPOLOGIES,
            False,
            "Unknown",
            "TopologyAwareSchedulingDisabled",
            (),
        ),
    ],
)
def test_unavailable_levels_are_reported_and_omitted(
    constraint: SetTopologyConstraint | None,
    topologies: Mapping[str, Any],
    enabled: bool,
    status: str | None,
    reason: str | None,
    missing: tuple[str, ...],
) -> None:
    set_ = build_set(topology_constraint=constraint)

    levels = resolve_levels(set_, topologies, enabled=enabled)

    assert (levels.reason, levels.missing) == (reason, missing)
    if status is not None:
        assert levels.condition_status == status
        assert levels.message
    spec = build_gangs_by_name(set_, 1, levels)["sys-0"]["spec"]
    has_rack = reason is not None and status != "Unknown" and "numa" not in missing
    assert spec.get("topologyConstraint") == (
        pack_constraint(required="rack") if has_rack else None
    )
    assert "spread" not in spec


def test_the_topology_is_the_one_that_any_part_names() -> None:
    set_ = pod_clique_set(
        clique(
            "a", topology_constraint=TopologyConstraint("", TopologyPackConstraint(required="zone"))
        ),
        clique("b", topology_constraint=require_domain("rack")),
    )

    assert resolve_levels(set_, TOPOLOGIES).topology == "t"


def test_a_deprecated_pack_domain_is_a_required_one() -> None:
    set_ = build_set(topology_constraint=SetTopologyConstraint("t", pack_domain="zone"))

    spec = build_gangs_by_name(set_)["sys-0"]["spec"]

    assert spec["topologyConstraint"] == pack_constraint(required="zone")
