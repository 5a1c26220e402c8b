"""A whole operator on an embedded cluster, in the event loop's own time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.local.cluster import Cluster
from kilonova.workloads.operator import Operator, build_operator
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import LoopClock
from tests.workloads.ground import parts_running


@asynccontextmanager
async def operating(cluster: Cluster, settings: Settings | None = None) -> AsyncGenerator[Operator]:
    """An operator from start to stop."""
    client, clock = cluster.client("operator"), LoopClock()
    operator = build_operator(
        client, settings or Settings(), now=clock.now, monotonic=clock.monotonic
    )
    async with parts_running(operator.parts, operator.leading):
        yield operator
