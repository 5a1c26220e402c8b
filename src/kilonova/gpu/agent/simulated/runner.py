"""Runs the agents of simulated nodes: caches, controller, events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.resources import NODES, PODS, Node, Pod
from kilonova.gpu.agent.simulated.claim_objects import CLAIMS, Claim, index_by_pool
from kilonova.gpu.agent.simulated.fleet import BY_NODE, SimulatedAgents, index_by_node
from kilonova.kube import Reflector, Runnable

_SIMULATED = "kilonova.dev/node-kind=sim"


@dataclass(frozen=True, slots=True)
class SimulatedAgentParts:
    """The agents, and what has to run for them."""

    agents: SimulatedAgents
    runnables: Sequence[Runnable]


def build_simulated_agents(
    context: AgentContext, directory: Callable[[], Path], monotonic: Callable[[], float]
) -> SimulatedAgentParts:
    """The agents of all nodes with the label of simulated nodes."""
    nodes: Reflector[Node] = Reflector(context.client, NODES, label_selector=_SIMULATED)
    pods: Reflector[Pod] = Reflector(
        context.client,
        PODS,
        field_selector="spec.nodeName!=",
        indexes={BY_NODE: index_by_node},
    )
    claims: Reflector[Claim] = Reflector(
        context.client, CLAIMS, indexes={BY_NODE: index_by_pool}, optional=True
    )
    agents = SimulatedAgents(nodes, pods, claims, context, directory, monotonic)
    runnables = (nodes, pods, claims, context.events, _AgentRunner(agents))
    return SimulatedAgentParts(agents, runnables)


class _AgentRunner:
    """The controller, and the end of all agents."""

    name = "simulated gpu agents"

    def __init__(self, agents: SimulatedAgents) -> None:
        self._agents = agents

    async def run(self) -> None:
        unwatch = self._agents.watch_faults()
        try:
            await self._agents.controller.run()
        finally:
            unwatch()
            await asyncio.shield(self._agents.close())
