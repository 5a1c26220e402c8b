"""What built-in controllers are built from: clients, shared caches, a clock, events.

Caches are shared: however many controllers watch pods, each change is decoded and stored once.
`objects.py` has the types that are worth sharing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector, Resource, Runnable
from kilonova.kube.events import EventRecorder
from kilonova.local.clock import Clock, IdGenerator
from kilonova.local.kubelet_api import Kubelets

T = TypeVar("T")


@dataclass(slots=True)
class ControllerContext:
    """Provides what controllers need, and collects the caches and recorders that have to run."""

    client_factory: Callable[[str], Client]
    clock: Clock
    identities: IdGenerator
    ca: str
    """The certificate authority of the API, in PEM."""
    kubelets: Kubelets
    data: Path | None = None
    """The directory of the cluster's persistent data; None if nothing is persisted."""
    can_run_pod: Callable[[JsonObject], bool] = lambda _: False
    """Whether this machine has the programs of a pod's containers (see `objects.image_taint`)."""
    shared_parts: list[Runnable] = field(default_factory=list[Runnable])
    """Caches and recorders, in order of creation; they run before the controllers."""
    _caches: dict[tuple[str, type], Reflector[Any]] = field(
        default_factory=dict[tuple[str, type], Reflector[Any]]
    )
    _recorders: dict[str, EventRecorder] = field(default_factory=dict[str, EventRecorder])
    _instances: dict[Callable[[Any], object], Any] = field(
        default_factory=dict[Callable[[Any], object], Any]
    )

    def client_for(self, name: str) -> Client:
        """A client with the name of a ServiceAccount, with all permissions."""
        return self.client_factory(f"system:serviceaccount:kube-system:{name}")

    def informer(self, resource: Resource[T]) -> Reflector[T]:
        """The shared cache of a resource in this type, created on first use.

        Add an index with `informer.store.add_index` while building, under a unique name.
        """
        key = (resource.full_name, resource.type)
        found = self._caches.get(key)
        if found is None:
            found = self._caches[key] = Reflector(self.client_for("shared-caches"), resource)
            self.shared_parts.append(found)
        return found

    def recorder(self, component: str) -> EventRecorder:
        """Records events in a controller's name."""
        found = self._recorders.get(component)
        if found is None:
            found = self._recorders[component] = EventRecorder(
                self.client_for(component),
                component,
                clock=self.clock.monotonic,
                wall=self.clock.now,
                new_id=self.identities.event_name_suffix,
            )
            self.shared_parts.append(found)
        return found

    def shared_instance(self, make: Callable[["ControllerContext"], T]) -> T:
        """An object that several controllers share, created on first use."""
        if make not in self._instances:
            self._instances[make] = make(self)
        return self._instances[make]
