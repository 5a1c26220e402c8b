"""Allocation strategies for commands: their flag, and the constraints that one states."""

from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.failure import CommandFailed

if TYPE_CHECKING:
    from kilonova.instances.alloc.allocation import BuildRequest
    from kilonova.instances.allocation import AllocationConstraints, AllocationRequest
    from kilonova.instances.plugins import PluginSet
    from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot


def complete_strategies(incomplete: str) -> list[str]:
    """Names of strategies with this prefix."""
    return [each for each in _load_strategies().list_names() if each.startswith(incomplete)]


Strategy = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The allocation strategy.",
        autocompletion=complete_strategies,
    ),
]


def state_constraints(
    request: "BuildRequest", cluster_snapshot: "ClusterSnapshot"
) -> "AllocationConstraints":
    """What the strategy of a request asks the scheduler for; `CommandFailed` if it cannot."""
    import asyncio

    from kilonova.instances.alloc.allocation import find_levels
    from kilonova.instances.alloc.snapshot_nodes import to_wire_nodes
    from kilonova.instances.plugins import PluginFailed

    nodes = to_wire_nodes(cluster_snapshot.nodes)
    asked = request.ask_strategy(find_levels(cluster_snapshot), nodes)
    try:
        return asyncio.run(_load_strategies().call(request.strategy, asked))
    except PluginFailed as error:
        raise CommandFailed(f"--strategy: {error}") from error


def _load_strategies() -> "PluginSet[AllocationRequest, AllocationConstraints]":
    from kilonova.instances.allocation import GROUP, AllocationConstraints
    from kilonova.instances.allocation.strategies import STRATEGIES
    from kilonova.instances.plugins import PluginSet

    return PluginSet(GROUP, STRATEGIES, AllocationConstraints)
