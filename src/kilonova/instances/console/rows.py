"""Rows of instances and deployments. Pure."""

from collections.abc import Mapping

import msgspec

from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineInstance,
    names,
)
from kilonova.component.console import Row
from kilonova.component.console.values import ConditionRow, condition_rows, parse_timestamp
from kilonova.kube.status import find_condition


class AgentNodeRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node with agents of an instance."""

    node: str
    agents: str
    """Their indices: `0-7, 12`."""
    domain: str


class InstanceRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An instance. Its id is `namespace/name`."""

    model: str
    phase: str
    agents: int = 0
    ready: int = 0
    domain: str = ""
    release: str = ""
    build: str = ""
    deployment: str = ""
    """The id of its deployment."""
    strategy: str = ""
    policy: str = ""
    queue: str = ""
    recreated: int = 0
    relocated: int = 0
    last_repair: float | None = None
    last_reason: str = ""
    problem: str = ""
    """Why it is not ready."""
    nodes: tuple[AgentNodeRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    created: float | None = None


class DeploymentRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A deployment. Its id is `namespace/name`."""

    release: str = ""
    desired: int = 0
    ready: int = 0
    updated: int = 0
    unallocatable: int = 0
    additional: int | None = None
    """How many more instances fit in the cluster."""
    additional_reason: str = ""
    paused: bool = False
    conditions: tuple[ConditionRow, ...] = ()
    created: float | None = None


def instance_row(instance: InferenceEngineInstance) -> InstanceRow:
    """The row of an instance."""
    metadata, spec, status = instance.metadata, instance.spec, instance.status
    deployment = metadata.labels.get(names.DEPLOYMENT, "")
    is_deleted = metadata.deletion_timestamp is not None
    return InstanceRow(
        id=f"{metadata.namespace}/{metadata.name}",
        model=spec.model,
        phase="Terminating" if is_deleted else status.phase,
        agents=status.target_agents or spec.target_agents or 0,
        ready=status.ready_agents,
        domain=status.domain,
        release=spec.release,
        build=spec.build,
        deployment=f"{metadata.namespace}/{deployment}" if deployment else "",
        strategy=spec.allocation.strategy,
        policy=spec.repair.policy,
        queue=spec.queue,
        recreated=status.repairs.recreated,
        relocated=status.repairs.relocated,
        last_repair=parse_timestamp(status.repairs.last_time),
        last_reason=status.repairs.last_reason,
        problem=_find_problem(instance),
        nodes=_list_nodes(instance),
        conditions=condition_rows(status.conditions),
        created=parse_timestamp(metadata.creation_timestamp),
    )


def deployment_row(deployment: InferenceEngineDeployment) -> DeploymentRow:
    """The row of a deployment."""
    metadata, spec, status = deployment.metadata, deployment.spec, deployment.status
    return DeploymentRow(
        id=f"{metadata.namespace}/{metadata.name}",
        release=spec.release,
        desired=spec.replicas,
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        unallocatable=status.unallocatable,
        additional=status.additional_replicas,
        additional_reason=status.additional_replicas_message,
        paused=spec.paused,
        conditions=condition_rows(status.conditions),
        created=parse_timestamp(metadata.creation_timestamp),
    )


def _find_problem(instance: InferenceEngineInstance) -> str:
    """The message of the first condition that keeps an instance from being ready."""
    conditions = instance.status.conditions
    degraded = find_condition(conditions, "Degraded")
    if degraded is not None and degraded.status == "True":
        return degraded.message
    for type_ in ("Allocated", "AgentsReady", "ConductorReady"):
        found = find_condition(conditions, type_)
        if found is not None and found.status == "False":
            return found.message
    return ""


def _list_nodes(instance: InferenceEngineInstance) -> tuple[AgentNodeRow, ...]:
    agents: dict[str, list[int]] = {}
    domains: dict[str, str] = {}
    for each in instance.status.allocation:
        agents.setdefault(each.node, []).append(each.agent)
        domains[each.node] = each.domain
    return tuple(_build_node_rows(agents, domains))


def _build_node_rows(
    agents: Mapping[str, list[int]], domains: Mapping[str, str]
) -> list[AgentNodeRow]:
    return [
        AgentNodeRow(node=node, agents=format_ranges(agents[node]), domain=domains[node])
        for node in sorted(agents)
    ]


def format_ranges(numbers: list[int]) -> str:
    """Numbers as ranges: `0-7, 12`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
