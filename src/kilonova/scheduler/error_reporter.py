"""Contains unexpected errors: the failure of one object is logged, counted, and costs one attempt.

The scheduler serves all tenants of a cluster. An exception caused by one gang, pod or node is a
defect, but it must neither stop scheduling for the others nor end the process: the same object
would end it again after every restart.
"""

from collections.abc import Awaitable

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.core.decisions import SchedulerError
from kilonova.scheduler.metrics import SchedulerMetrics

_log = get_logger(__name__)

_MAX_ERROR_LENGTH = 512
"""Characters of an error in a message for users."""


class ErrorReporter:
    """Logs and counts contained errors."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics

    def report(self, part: str, subject: str, error: Exception) -> SchedulerError:
        """Log and count the error that is being handled; returns the reason to report for the
        object."""
        self._metrics.count_error(part)
        _log.exception("unexpected error, scheduling continues", part=part, object=subject)
        return SchedulerError(f"{type(error).__name__}: {error}")

    async def contain(self, part: str, subject: str, work: Awaitable[None]) -> None:
        """Await work whose failure concerns one object only."""
        try:
            await work
        except Exception as error:
            self.report(part, subject, error)


def internal_error_message(failed: SchedulerError) -> str:
    """The message for a gang that could not be scheduled because of a defect."""
    details = "retried with backoff, details are in the scheduler's log"
    return f"internal error while scheduling: {failed.error[:_MAX_ERROR_LENGTH]}; {details}"
