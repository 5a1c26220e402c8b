"""What built-in controllers are made from: clients, shared caches, a clock, events.

Caches are shared: however many controllers look at pods, each change of one is decoded and kept
once. `objects.py` has the types that are worth sharing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kilonova.kube import Client, Part, Reflector, Resource
from kilonova.kube.events import Recorder
from kilonova.local.clock import Clock, Identities
from kilonova.local.kubelets import Kubelets

T = TypeVar("T")


@dataclass(slots=True)
class Workshop:
    """Hands out what controllers need, and remembers what has to run for it."""

    client: Callable[[str], Client]
    clock: Clock
    identities: Identities
    ca: str
    """The certificate authority of the API, in PEM."""
    kubelets: Kubelets
    data: Path | None = None
    """Where the cluster keeps what outlives it; None where nothing does."""
    shared: list[Part] = field(default_factory=list[Part])
    """Caches and recorders, in the order of their making; they run before the controllers."""
    _caches: dict[tuple[str, type], Reflector[Any]] = field(
        default_factory=dict[tuple[str, type], Reflector[Any]]
    )
    _recorders: dict[str, Recorder] = field(default_factory=dict[str, Recorder])
    _made: dict[Callable[[Any], object], Any] = field(
        default_factory=dict[Callable[[Any], object], Any]
    )

    def account(self, name: str) -> Client:
        """A client that acts under a ServiceAccount's name, with all rights."""
        return self.client(f"system:serviceaccount:kube-system:{name}")

    def cache(self, resource: Resource[T]) -> Reflector[T]:
        """The cache of a resource in this type; whoever asks next gets the same.

        Add an index with `cache.store.add_index` while building, under a name of your own.
        """
        key = (resource.full_name, resource.type)
        found = self._caches.get(key)
        if found is None:
            found = self._caches[key] = Reflector(self.account("shared-caches"), resource)
            self.shared.append(found)
        return found

    def recorder(self, component: str) -> Recorder:
        """Reports events in a controller's name."""
        found = self._recorders.get(component)
        if found is None:
            found = self._recorders[component] = Recorder(
                self.account(component),
                component,
                clock=self.clock.monotonic,
                wall=self.clock.now,
                new_id=self.identities.token,
            )
            self.shared.append(found)
        return found

    def once(self, make: Callable[["Workshop"], T]) -> T:
        """What several controllers share: made at the first call, the same at the next."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]
