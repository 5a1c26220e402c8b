"""The scheduler in the cluster of `kilonova up`.

The same as `kilonova run scheduler`, with an in-process client; it also schedules pods without a
`schedulerName`.
"""

from collections.abc import Sequence

from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.kube import Runnable
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import EMBEDDED_SETTINGS


def build_embedded_scheduler(context: EmbeddedContext) -> EmbeddedComponent:
    """The scheduler; the API server exposes its metrics."""
    cluster = context.cluster

    def build_runnables() -> Sequence[Runnable]:
        scheduler = build_scheduler(
            context.client,
            EMBEDDED_SETTINGS,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            registry=cluster.component_registry(context.name),
            new_id=cluster.new_id,
        )
        return [*scheduler.runnables, *scheduler.leader_runnables]

    return EmbeddedComponent(build_runnables=build_runnables)
