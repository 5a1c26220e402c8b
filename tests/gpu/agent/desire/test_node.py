"""The patches of a Node."""

import pytest
from msgspec.structs import replace

from kilonova import __version__
from kilonova.api.gpu.annotations import AGENT, TOPOLOGY, format_topology
from kilonova.api.gpu.health import HEALTH, UNHEALTHY_TAINT, HealthRecord
from kilonova.api.meta import Condition
from kilonova.catalog import load_catalog
from kilonova.gpu.agent.desire.conditions import (
    MigProblem,
    build_taint,
    gpu_health_condition,
    mig_condition,
)
from kilonova.gpu.agent.desire.extended_resources import build_resources
from kilonova.gpu.agent.desire.node import DesiredNode, build_node_patch, build_taint_patch
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.agent.resources import NodeAnnotations, NodeSpec, NodeStatus, Taint
from kilonova.gpu.topology.labels import build_labels
from tests.gpu.agent.builders import NOW, machine, node, with_instances

LOST = HealthRecord("Unhealthy", "XID 79: GPU has fallen off the bus", "2026-05-01T12:00:00Z")


def test_node_that_says_all_of_it_is_not_written() -> None:
    topology = build_topology(machine(), {})
    condition = Condition("GPUHealthy", "True", "AllGPUsHealthy", "all 2 GPUs are healthy")
    desired = DesiredNode(
        {"nvidia.com/gpu.count": "2"},
        topology,
        {},
        {"nvidia.com/gpu": "2"},
        {"nvidia.com/gpu": "2"},
        (condition,),
    )
    present = node(
        NodeAnnotations(topology=format_topology(topology), agent=__version__),
        {"nvidia.com/gpu.count": "2", "nvidia.com/other": "x"},
        status=NodeStatus(
            (replace(condition, last_transition_time="2026-04-01T00:00:00Z"),),
            {"nvidia.com/gpu": 2},
            {"nvidia.com/gpu": "2"},
        ),
    )
    assert build_node_patch(present, desired, NOW) is None


def test_only_what_differs_is_written() -> None:
    topology = build_topology(machine(), {})
    present = node(NodeAnnotations(topology=format_topology(topology), agent="0.0.1"))
    assert build_node_patch(present, DesiredNode(topology=topology), NOW) == {
        "metadata": {"uid": "uid-node-a", "annotations": {AGENT: __version__}}
    }


def test_annotation_with_other_whitespace_says_the_same() -> None:
    topology = build_topology(machine(), {})
    text = format_topology(topology).replace(",", ", ")
    present = node(NodeAnnotations(topology=text, agent=__version__))
    assert build_node_patch(present, DesiredNode(topology=topology), NOW) is None


def test_labels_and_resources_of_instances_that_are_gone_are_removed() -> None:
    desired = DesiredNode({}, None, None, {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"})
    present = node(
        NodeAnnotations(agent=__version__),
        {"nvidia.com/mig-1g.10gb.count": "3", "nvidia.com/mig.config": "all-1g.10gb"},
        status=NodeStatus((), {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "3"}, {}),
    )
    patch = build_node_patch(present, desired, NOW)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"nvidia.com/mig-1g.10gb.count": None}
    assert patch["status"]["capacity"] == {"nvidia.com/mig-1g.10gb": None}


def test_condition_keeps_its_transition_time_while_its_status_is_the_same() -> None:
    old = Condition("MIGReady", "False", "CreatingInstances", "one", "2026-04-01T00:00:00Z")
    new = Condition("MIGReady", "False", "MIGChangeFailed", "two")
    present = node(NodeAnnotations(agent=__version__), status=NodeStatus((old,)))
    patch = build_node_patch(present, DesiredNode(conditions=(new,)), NOW)
    assert patch is not None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "2026-04-01T00:00:00Z"


def test_health_records_are_removed_with_the_last_one() -> None:
    present = node(NodeAnnotations(agent=__version__, health='{"GPU-1":{}}'))
    patch = build_node_patch(present, DesiredNode(health={}), NOW)
    assert patch is not None
    assert patch["metadata"]["annotations"] == {HEALTH: None}


def test_taints_of_others_stay() -> None:
    other = Taint("team", "NoSchedule", "ml")
    own = Taint(UNHEALTHY_TAINT, "NoSchedule", "true")
    set_patch = build_taint_patch(node(spec=NodeSpec((other,))), DesiredNode(taint=own))
    assert set_patch is not None
    assert [each["key"] for each in set_patch["spec"]["taints"]] == ["team", UNHEALTHY_TAINT]
    assert set_patch["metadata"]["resourceVersion"] == "7"
    removed = build_taint_patch(node(spec=NodeSpec((other, own))), DesiredNode())
    assert removed is not None
    assert [each["key"] for each in removed["spec"]["taints"]] == ["team"]
    assert build_taint_patch(node(spec=NodeSpec((other,))), DesiredNode()) is None


def test_only_a_node_without_any_healthy_device_is_tainted() -> None:
    inventory = machine()
    first, second = (each.uuid for each in inventory.devices)
    assert build_taint(inventory, {first: LOST}) is None
    assert build_taint(inventory, {first: LOST, second: LOST}) is not None


def test_conditions_of_devices() -> None:
    inventory = machine()
    healthy = gpu_health_condition(inventory, {})
    assert (healthy.status, healthy.message) == ("True", "all 2 GPUs are healthy")
    lost = gpu_health_condition(inventory, {inventory.devices[1].uuid: LOST})
    assert (lost.status, lost.reason) == ("False", "GPUUnhealthy")
    assert lost.message == "GPU 1: XID 79: GPU has fallen off the bus"
    observed = replace(LOST, state="Degraded")
    degraded = gpu_health_condition(inventory, {inventory.devices[1].uuid: observed})
    assert (degraded.status, degraded.reason) == ("True", "GPUDegraded")


@pytest.mark.parametrize(
    ("problems", "status", "reason"),
    [
        ((), "True", "InstancesExist"),
        ((MigProblem("CreatingInstances", "a", True),), "False", "CreatingInstances"),
        (
            (MigProblem("CreatingInstances", "a", True), MigProblem("MIGChangeFailed", "b")),
            "False",
            "MIGChangeFailed",
        ),
    ],
)
def test_mig_condition(problems: tuple[MigProblem, ...], status: str, reason: str) -> None:
    condition = mig_condition(problems, 0)
    assert (condition.status, condition.reason) == (status, reason)


def test_resources_count_healthy_devices_and_their_instances() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0", "1g.10gb+me@1", "3g.40gb@4")
    inventory = with_instances(inventory, 1, "1g.10gb@0")
    capacity, allocatable = build_resources(inventory, {inventory.devices[1].uuid: LOST})
    assert capacity == {
        "nvidia.com/gpu": "2",
        "nvidia.com/mig-1g.10gb": "2",
        "nvidia.com/mig-1g.10gb.me": "1",
        "nvidia.com/mig-3g.40gb": "1",
    }
    assert allocatable["nvidia.com/gpu"] == "1"
    assert allocatable["nvidia.com/mig-1g.10gb"] == "1"


def test_labels_of_feature_discovery() -> None:
    labels = build_labels(with_instances(machine("h100:2"), 0, "1g.10gb@0"), load_catalog())
    wanted = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/mig-1g.10gb.count": "1",
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    }
    assert {name: labels.get(name) for name in wanted} == wanted


def test_clique_label_is_that_of_the_nvlink_domain() -> None:
    labels = build_labels(machine("gb200-nvl72"), load_catalog())
    assert labels["nvidia.com/gpu.clique"].endswith(".0")


def test_uid_of_the_node_guards_every_patch() -> None:
    patch = build_node_patch(node(), DesiredNode(), NOW)
    assert patch is not None
    assert patch["metadata"]["uid"] == "uid-node-a"
    assert TOPOLOGY not in patch["metadata"]["annotations"]
