"""What `kilonova doctor` finds about GPUs."""

from msgspec.structs import replace

from kilonova import __version__
from kilonova.api.gpu.annotations import format_topology
from kilonova.api.gpu.health import HealthRecord, Phase, Recovery, format_health
from kilonova.api.meta import Condition
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.agent.resources import Node, NodeAnnotations, NodeStatus
from kilonova.gpu.checks import find_problems
from tests.gpu.agent.builders import machine, node

INVENTORY = machine()


def gpu_node(agent: str = __version__, **records: HealthRecord) -> Node:
    health = {INVENTORY.devices[int(name[3:])].uuid: each for name, each in records.items()}
    annotations = NodeAnnotations(
        topology=format_topology(build_topology(INVENTORY, health)),
        agent=agent,
        health=format_health(health) if health else "",
    )
    return node(annotations)


def findings(*nodes: Node) -> list[tuple[str, str]]:
    return [(each.level, each.message) for each in find_problems(nodes)]


def test_healthy_nodes_are_one_line() -> None:
    text = "agents run on all 1 nodes with GPUs, and all GPUs are healthy"
    assert findings(gpu_node(), node()) == [("ok", text)]


def test_cluster_without_gpus() -> None:
    assert findings(node()) == [("ok", "no node has GPUs")]


def test_missing_agents_and_other_versions_are_named() -> None:
    labelled = node(labels={"nvidia.com/gpu.present": "true"})
    (missing, versions) = findings(labelled, gpu_node("0.0.1"))
    assert missing[0] == "warning"
    assert missing[1].startswith("no agent has claimed node-a:")
    assert versions == ("warning", f"agents of other versions than {__version__}: 0.0.1 on 1")


def test_unhealthy_gpu_says_what_helps() -> None:
    record = HealthRecord(
        "Unhealthy", "XID 79: off", "2026-05-01T12:00:00Z", Recovery.REBOOT, Phase.WAITING, 79
    )
    (finding,) = find_problems([gpu_node(gpu1=record)])
    assert (finding.level, finding.message) == ("problem", "node node-a: GPU 1: XID 79: off")
    assert finding.fix == "reboot the node"


def test_failed_mig_change_is_a_problem() -> None:
    failed = Condition("MIGReady", "False", "MIGChangeFailed", "GPU 0: no free slices")
    found = replace(gpu_node(), status=NodeStatus((failed,)))
    assert findings(found) == [("problem", "node node-a: GPU 0: no free slices")]


def test_invalid_annotation_is_a_problem() -> None:
    broken = node(NodeAnnotations(topology="{", agent=__version__))
    (finding,) = find_problems([broken])
    assert finding.level == "problem"
    assert "gpu.kilonova.dev/topology" in finding.message
