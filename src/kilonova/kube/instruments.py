"""What the runtime tells whoever measures it.

Reflectors and controllers call an `Instruments`; the Prometheus one is in
`kilonova.kube.metrics`. Calls are synchronous, cheap, and made from the event loop.
"""

from collections.abc import Callable
from typing import Literal, Protocol

Outcome = Literal["success", "requeued", "error"]
"""How a reconcile ended; `requeued` means that it asked to be called again later."""

RelistCause = Literal["start", "expired"]
"""Why a reflector lists: for the first time, or because its version is too old to resume."""


class Instruments(Protocol):
    """Receives measurements. `resource` is `pods`, `podcliquesets.grove.io` and the like."""

    def queue_opened(self, controller: str, depth: Callable[[], int]) -> None:
        """A controller has a queue; `depth` tells how many keys wait in it, when asked."""
        ...

    def reconciled(self, controller: str, outcome: Outcome, seconds: float, waited: float) -> None:
        """A reconcile ended after `seconds`; its key had been waiting for `waited` seconds."""
        ...

    def events_received(self, resource: str, count: int) -> None:
        """A batch of watch events was taken into a store."""
        ...

    def listed(self, resource: str, cause: RelistCause, objects: int) -> None:
        """A store was filled from a complete list."""
        ...

    def watch_ended(self, resource: str, reason: str) -> None:
        """A watch ended: `closed`, `silent`, or the reason of the error that ended it."""
        ...


class Unmeasured:
    """Instruments that nobody reads."""

    def queue_opened(self, controller: str, depth: Callable[[], int]) -> None: ...
    def reconciled(
        self, controller: str, outcome: Outcome, seconds: float, waited: float
    ) -> None: ...
    def events_received(self, resource: str, count: int) -> None: ...
    def listed(self, resource: str, cause: RelistCause, objects: int) -> None: ...
    def watch_ended(self, resource: str, reason: str) -> None: ...


UNMEASURED: Instruments = Unmeasured()
