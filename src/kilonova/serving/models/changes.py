"""The next steps from what servers have to what they are to have. Pure.

Each server does one thing at a time. It is never asked to load what does not fit beside all that it
has, so a copy is unloaded first where another one needs its memory. The last copy of a model is
unloaded after another one was loaded elsewhere, unless that one waits for this memory itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kilonova.serving.models.model import PlacedModel, Placement

Action = Literal["Load", "Unload"]


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server has."""

    name: str
    loaded: frozenset[str] = frozenset()
    """Managed models only, also those that are no longer wanted."""
    busy_with: str = ""
    """The model that it is loading or unloading."""
    resting: frozenset[str] = frozenset()
    """Models that failed to load or unload there lately, and are not tried again yet."""
    is_away: bool = False
    """Whether it does not answer, since a short time ago."""


@dataclass(frozen=True, slots=True)
class Change:
    """One step on one server."""

    server: str
    action: Action
    model: str


def choose_changes(
    placement: Placement,
    servers: Iterable[ServerState],
    models: Mapping[str, PlacedModel],
    server_memory: int | None,
) -> list[Change]:
    """At most one change for each server that has nothing to do. Empty if all is as it should be,
    or only busy servers and failed loads are waited for."""
    steps = _Steps(placement, list(servers), models, server_memory)
    return steps.choose()


class _Steps:
    def __init__(
        self,
        placement: Placement,
        servers: list[ServerState],
        models: Mapping[str, PlacedModel],
        server_memory: int | None,
    ) -> None:
        self._placement = placement
        self._servers = servers
        self._models = models
        self._memory = server_memory
        # A copy that is being unloaded serves no request any more; one that is loaded not yet.
        self._copies = Counter(
            name
            for each in servers
            if not each.is_away
            for name in each.loaded
            if name != each.busy_with
        )
        self._wanted = Counter(name for each in placement.servers.values() for name in each)

    def choose(self) -> list[Change]:
        changes: list[Change] = []
        idle = [each for each in self._servers if not each.busy_with and not each.is_away]
        for server in idle:
            change = self._choose_load(server) or self._choose_unload(server)
            if change is not None:
                changes.append(change)
        if not changes and len(idle) == len(self._servers):
            return [*self._resolve_deadlock(idle)]
        return changes

    def _choose_load(self, server: ServerState) -> Change | None:
        for name in self._list_missing(server):
            if self._has_space(server, name):
                return Change(server.name, "Load", name)
        return None

    def _choose_unload(self, server: ServerState) -> Change | None:
        for name in self._list_surplus(server):
            # Of several copies that are to be unloaded at once, the last one stays for now.
            if not self._wanted[name] or self._copies[name] > 1:
                self._copies[name] -= 1
                return Change(server.name, "Unload", name)
        return None

    def _resolve_deadlock(self, servers: list[ServerState]) -> Iterable[Change]:
        """One last copy that gives way, where the load of another model waits for its memory."""
        for server in servers:
            if self._list_missing(server):
                for name in self._list_surplus(server)[:1]:
                    yield Change(server.name, "Unload", name)
                    return

    def _list_missing(self, server: ServerState) -> list[str]:
        """What it is to load: models without a copy first, then those with the highest load."""
        wanted = self._placement.servers.get(server.name, frozenset())
        missing = wanted - server.loaded - server.resting
        return sorted(
            missing, key=lambda each: (self._copies[each] > 0, -self._models[each].load, each)
        )

    def _list_surplus(self, server: ServerState) -> list[str]:
        wanted = self._placement.servers.get(server.name, frozenset())
        return sorted(server.loaded - wanted - server.resting)

    def _has_space(self, server: ServerState, name: str) -> bool:
        if self._memory is None:
            return True
        # A model that is no longer declared has an unknown size: it is unloaded before others.
        if server.loaded - self._models.keys():
            return False
        used = sum(self._models[each].memory for each in server.loaded)
        return used + self._models[name].memory <= self._memory
