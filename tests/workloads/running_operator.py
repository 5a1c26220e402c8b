"""A whole operator on an embedded cluster, in the event loop's virtual time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.local.cluster import EmbeddedCluster
from kilonova.workloads.operator import Operator, build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import LoopClock
from tests.workloads.workload_cluster import run_runnables


@asynccontextmanager
async def running_operator(
    cluster: EmbeddedCluster, settings: OperatorSettings | None = None
) -> AsyncGenerator[Operator]:
    """An operator from start to stop."""
    client, clock = cluster.client("operator"), LoopClock()
    operator = build_operator(
        client, settings or OperatorSettings(), now=clock.now, monotonic=clock.monotonic
    )
    async with run_runnables(operator.runnables, operator.leader_runnables):
        yield operator
