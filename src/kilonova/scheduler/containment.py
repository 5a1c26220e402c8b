"""Contains unexpected errors: one object's failure is logged and counted, and costs only its turn.

The scheduler serves all tenants of a cluster. An exception that one gang, pod or node provokes is a
defect, but it must not stop scheduling for the others, nor end the process: the same object would
end it again at every start.
"""

from collections.abc import Awaitable

from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.plan import SchedulerError
from kilonova.scheduler.metrics import SchedulerMetrics

_log = get_logger(__name__)


class ErrorReporter:
    """Logs and counts errors that were contained."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def report(self, part: str, subject: str, error: Exception) -> SchedulerError:
        """Note the error that is being handled; returns the reason to show for the object."""
        self._metrics.error_contained(part)
        _log.exception("unexpected error, scheduling continues", part=part, object=subject)
        return SchedulerError(f"{type(error).__name__}: {error}")

    async def contain(self, part: str, subject: str, work: Awaitable[None]) -> None:
        """Await something whose failure concerns one object only."""
        try:
            await work
        except Exception as error:
            self.report(part, subject, error)
