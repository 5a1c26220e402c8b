"""What writers and a watcher know of a server that is killed, and the invariants.

Each writer owns its keys, so that every key has a linear history: the acknowledged state, and at
most one write whose response was lost, which may or may not have happened. Values increase, so that
a state identifies the write that made it.
"""

from dataclasses import dataclass, field


@dataclass
class KeyHistory:
    """One object's history. `value` is None while it does not exist."""

    value: int | None = None
    written: int = 0
    unacknowledged: list[int | None] = field(default_factory=list[int | None])

    def list_possible_values(self) -> list[int | None]:
        return [self.value, *self.unacknowledged]


@dataclass
class WatchedEvent:
    """One event of the watch."""

    version: int
    kind: str
    value: int


@dataclass
class WriteLedger:
    """Shared by all threads; every list is appended to by only one of them."""

    keys: dict[str, KeyHistory] = field(default_factory=dict[str, KeyHistory])
    acknowledged: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    deletes: int = 0
    events: dict[str, list[WatchedEvent]] = field(default_factory=dict[str, list[WatchedEvent]])
    last_event: int = 0
    newest_version: int = 0
    version_floor: int = 0
    relists: list[int] = field(default_factory=list[int])
    violations: list[str] = field(default_factory=list[str])

    def acknowledge(self, name: str, value: int, version: int) -> None:
        """A write was acknowledged; its version is new, and greater than all before the last
        kill.
        """
        if version <= self.version_floor:
            self.violations.append(
                f"resourceVersion {version} of {name} is not greater than {self.version_floor}, "
                "which was returned before a kill"
            )
        if earlier := self.acknowledged.get(version):
            self.violations.append(f"version {version} is of {earlier} and of {(name, value)}")
        self.acknowledged[version] = (name, value)
        self.newest_version = max(self.newest_version, version)

    def count_acknowledged(self) -> int:
        """The number of creations, updates and deletions that were acknowledged."""
        return len(self.acknowledged) + self.deletes

    def raise_floor(self) -> None:
        """The server was killed: versions from now on must be greater than all known ones."""
        self.version_floor = max(self.last_event, self.newest_version)

    def observe(self, name: str, seen: WatchedEvent) -> None:
        """An event arrived; versions of events must increase."""
        if seen.version <= self.last_event:
            self.violations.append(f"event {seen} of {name} after version {self.last_event}")
        self.last_event = seen.version
        history = self.events.setdefault(name, [])
        exists = bool(history) and history[-1].kind != "DELETED"
        if exists != (seen.kind != "ADDED"):
            self.violations.append(f"{name}: {seen} does not follow {history[-1:]}")
        history.append(seen)

    def list_watched_values(self) -> dict[str, int]:
        """The existing objects, by the events of the watch alone."""
        return {
            name: events[-1].value
            for name, events in self.events.items()
            if events[-1].kind != "DELETED"
        }

    def find_lost_writes(self, found: dict[str, int]) -> list[str]:
        """Acknowledged writes that a list does not show."""
        return [
            f"{name} was acknowledged as {key.value} (unacknowledged {key.unacknowledged}), "
            f"is {found.get(name)}"
            for name, key in self.keys.items()
            if found.get(name) not in key.list_possible_values()
        ]

    def find_watch_gaps(self) -> list[str]:
        """Acknowledged writes that the watch never showed since its last relist."""
        since = max(self.relists, default=0)
        shown = {
            seen.version: (name, seen.value)
            for name, events in self.events.items()
            for seen in events
        }
        return [
            f"version {version} of {what} came as {shown.get(version)}"
            for version, what in self.acknowledged.items()
            if version > since and shown.get(version) != what
        ]
