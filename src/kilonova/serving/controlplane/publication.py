"""What was published of each service: the last valid configuration, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.controlplane.ads.snapshot import Snapshot
from kilonova.serving.gateway.model import GatewayState, ServiceKey


@dataclass(frozen=True, slots=True)
class Publication:
    """A service as its gateways are configured."""

    spec: InferenceServiceSpec
    state: GatewayState
    snapshot: Snapshot
    on_demand: frozenset[str] = frozenset()
    """Groups that get a server with the next request, if they have none."""
    ready_gateways: frozenset[str] = frozenset()
    """The names of the gateways' pods that are ready."""
    draining_gateways: frozenset[str] = frozenset()
    """The names of the gateways' pods that are to close their listeners."""
    warnings: tuple[str, ...] = ()
    """What was left out of the configuration, and why."""


class Publications:
    """The publications of all services."""

    def __init__(self) -> None:
        self._publications: dict[ServiceKey, Publication] = {}
        self._listeners: list[Callable[[ServiceKey], None]] = []

    def get(self, key: ServiceKey) -> Publication | None:
        """The publication of a service; None before the first one."""
        return self._publications.get(key)

    def add_listener(self, listener: Callable[[ServiceKey], None]) -> None:
        """Call it whenever the publication of a service changes."""
        self._listeners.append(listener)

    def publish(self, key: ServiceKey, publication: Publication | None) -> None:
        """Replace the publication of a service; None if the service was deleted."""
        if publication is None:
            self._publications.pop(key, None)
        else:
            self._publications[key] = publication
        for listener in self._listeners:
            listener(key)
