"""Findings of `kilonova doctor` about GPUs."""

from collections import Counter
from collections.abc import Sequence

from kilonova import __version__
from kilonova.api.gpu.annotations import InvalidAnnotation, parse_topology
from kilonova.api.gpu.health import MIG_READY, parse_health
from kilonova.catalog.gpu_features import PRESENT, PRODUCT
from kilonova.component.finding import Finding, ok, problem, warning
from kilonova.gpu.agent.resources import NODES, Node
from kilonova.kube import Client
from kilonova.kube.status import find_condition

_CHECK = "gpus"
_MAX_NAMED = 5


async def check_gpus(client: Client) -> Sequence[Finding]:
    """Agents and devices of the nodes that have GPUs."""
    return find_problems((await client.list(NODES)).items)


def find_problems(nodes: Sequence[Node]) -> list[Finding]:
    """What is wrong with the GPUs of these nodes. Pure."""
    with_gpus = [each for each in nodes if _has_gpus(each)]
    if not with_gpus:
        return [ok(_CHECK, "no node has GPUs")]
    findings = [
        *_check_agents(with_gpus),
        *(finding for node in with_gpus for finding in _check_node(node)),
    ]
    if findings:
        return findings
    count = len(with_gpus)
    return [ok(_CHECK, f"agents run on all {count} nodes with GPUs, and all GPUs are healthy")]


def _has_gpus(node: Node) -> bool:
    labels, annotations = node.metadata.labels, node.metadata.annotations
    return bool(annotations.topology or labels.get(PRODUCT) or labels.get(PRESENT) == "true")


def _check_agents(nodes: Sequence[Node]) -> list[Finding]:
    findings: list[Finding] = []
    missing = [each.metadata.name for each in nodes if not each.metadata.annotations.agent]
    if missing:
        findings.append(
            warning(
                _CHECK,
                f"no agent has claimed {_names(missing)}: MIG instances are not made there, and "
                "GPUs that fail are not noticed",
                "run deploy/agent on nodes with GPUs (in `kilonova up`: run the component gpu)",
            )
        )
    versions = Counter(
        each.metadata.annotations.agent for each in nodes if each.metadata.annotations.agent
    )
    others = {version: count for version, count in versions.items() if version != __version__}
    if others:
        listed = ", ".join(f"{version} on {count}" for version, count in sorted(others.items()))
        findings.append(
            warning(
                _CHECK,
                f"agents of other versions than {__version__}: {listed}",
                "update deploy/agent, or this command",
            )
        )
    return findings


def _check_node(node: Node) -> list[Finding]:
    name, findings = node.metadata.name, list[Finding]()
    topology = parse_topology(node.metadata.annotations.topology or '{"gpus": []}')
    if isinstance(topology, InvalidAnnotation):
        return [
            problem(_CHECK, f"node {name}: {topology}", "remove the annotation: it is rewritten")
        ]
    bad = [(index, gpu.reason) for index, gpu in enumerate(topology.gpus) if not gpu.healthy]
    if bad:
        listed = "; ".join(f"GPU {index}: {reason or 'unhealthy'}" for index, reason in bad)
        records = parse_health(node.metadata.annotations.health).values()
        recoveries = {each.recovery.value for each in records if each.is_unhealthy}
        fixes = {
            "Reboot": "reboot the node",
            "Repair": "replace the GPU",
            "Reset": "none: it is reset once its pods have ended",
        }
        fix = next((text for name, text in fixes.items() if name in recoveries), "")
        findings.append(
            problem(_CHECK, f"node {name}: {listed}", fix or "see the events of the node")
        )
    condition = find_condition(node.status.conditions, MIG_READY)
    if condition is not None and condition.status == "False" and "Failed" in condition.reason:
        findings.append(
            problem(
                _CHECK,
                f"node {name}: {condition.message}",
                "the agent tries again; its log has the cause",
            )
        )
    return findings


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
