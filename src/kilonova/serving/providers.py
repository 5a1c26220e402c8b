"""What the parts of this package learn from one another inside of a process.

Everything else goes through API objects: the models that a server has loaded are an annotation of
its pod, decisions of the autoscaler are in the status of the service.
"""

from collections.abc import Callable
from typing import Protocol

from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.signals.model import ServiceSignals

Listener = Callable[[ServiceKey], None]


class HeldRequests(Protocol):
    """Requests that wait in this process until their group has a server (`controlplane`)."""

    def count(self, key: ServiceKey, group: str) -> int: ...

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a first request is held for a group."""
        ...


class SignalSource(Protocol):
    """The latest figures of a service (`signals`)."""

    def latest(self, key: ServiceKey) -> ServiceSignals | None: ...

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever there are new figures."""
        ...


class OverloadedGroups(Protocol):
    """Groups whose load is above `limits.load` (`signals`)."""

    def overloaded(self, key: ServiceKey) -> frozenset[str]: ...

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever the answer changes."""
        ...


class RequestedModels(Protocol):
    """Models on demand that requests wait for in this process, because no server has loaded them
    (`controlplane`)."""

    def requested(self, key: ServiceKey, group: str) -> frozenset[str]: ...

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever a first request is held for a model."""
        ...


class GatewayProblems(Protocol):
    """What is wrong with the configuration of gateways (`controlplane`)."""

    def list_problems(self, key: ServiceKey) -> tuple[str, ...]:
        """What was not built, not accepted, or left out."""
        ...

    def is_closed(self, key: ServiceKey) -> bool:
        """Whether the gateways refuse all requests: Secrets are missing or invalid."""
        ...

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever the answers change."""
        ...
