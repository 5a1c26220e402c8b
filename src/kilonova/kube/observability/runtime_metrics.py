"""The metrics interface of reflectors and controllers.

They call a `RuntimeMetrics`; the Prometheus implementation is in
`kilonova.kube.observability.metrics`. Calls are synchronous, cheap, and made from the event loop.
"""

from collections.abc import Callable
from typing import Literal, Protocol

ReconcileOutcome = Literal["success", "requeued", "error"]
"""How a reconcile ended; `requeued` means that it requested another call later."""

RelistCause = Literal["start", "expired"]
"""Why a reflector lists: for the first time, or because its version is too old to resume."""


class RuntimeMetrics(Protocol):
    """Receives measurements. `resource` is `pods`, `podcliquesets.grove.io` and the like."""

    def register_queue(self, controller: str, depth: Callable[[], int]) -> None:
        """Register the work queue of a controller; `depth` returns the number of queued keys."""
        ...

    def observe_reconcile(
        self, controller: str, outcome: ReconcileOutcome, seconds: float, queue_duration: float
    ) -> None:
        """Record a reconcile of `seconds`, whose key had been queued for `queue_duration`
        seconds."""
        ...

    def count_watch_events(self, resource: str, count: int) -> None:
        """Count a batch of watch events that was applied to a store."""
        ...

    def observe_list(self, resource: str, cause: RelistCause, objects: int) -> None:
        """Record that a store was filled from a complete list."""
        ...

    def count_watch_end(self, resource: str, reason: str) -> None:
        """Count the end of a watch: `closed`, or the reason of the error that ended it."""
        ...


class NoRuntimeMetrics:
    """Discards all measurements."""

    def register_queue(self, controller: str, depth: Callable[[], int]) -> None: ...
    def observe_reconcile(
        self, controller: str, outcome: ReconcileOutcome, seconds: float, queue_duration: float
    ) -> None: ...
    def count_watch_events(self, resource: str, count: int) -> None: ...
    def observe_list(self, resource: str, cause: RelistCause, objects: int) -> None: ...
    def count_watch_end(self, resource: str, reason: str) -> None: ...


NO_RUNTIME_METRICS: RuntimeMetrics = NoRuntimeMetrics()
