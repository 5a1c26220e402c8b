"""What writers and a watcher know of a server that is killed under them, and what must hold.

Each writer owns its keys, so that for every key there is one line of history: the state it
was acknowledged in, and at most one write whose answer never came, which may or may not have
happened. Values count up, so that a state names the write that made it.
"""

from dataclasses import dataclass, field


@dataclass
class Key:
    """One object's history. `value` is None while it does not exist."""

    value: int | None = None
    written: int = 0
    doubt: list[int | None] = field(default_factory=list[int | None])

    def possible(self) -> list[int | None]:
        return [self.value, *self.doubt]


@dataclass
class Seen:
    """One event of the watch."""

    version: int
    kind: str
    value: int


@dataclass
class Ledger:
    """Shared by all threads; every list is appended to by one of them only."""

    keys: dict[str, Key] = field(default_factory=dict[str, Key])
    acknowledged: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    deletes: int = 0
    events: dict[str, list[Seen]] = field(default_factory=dict[str, list[Seen]])
    last_event: int = 0
    newest: int = 0
    floor: int = 0
    relists: list[int] = field(default_factory=list[int])
    violations: list[str] = field(default_factory=list[str])

    def acknowledge(self, name: str, value: int, version: int) -> None:
        """A write was answered; its version is new, and newer than all before the last kill."""
        if version <= self.floor:
            self.violations.append(
                f"version {version} of {name} does not go beyond {self.floor}, known before a kill"
            )
        if earlier := self.acknowledged.get(version):
            self.violations.append(f"version {version} is of {earlier} and of {(name, value)}")
        self.acknowledged[version] = (name, value)
        self.newest = max(self.newest, version)

    def raise_floor(self) -> None:
        """The server was killed: what it gives out from now on is newer than all we know."""
        self.floor = max(self.last_event, self.newest)

    def observe(self, name: str, seen: Seen) -> None:
        """An event came; versions of events only go up."""
        if seen.version <= self.last_event:
            self.violations.append(f"event {seen} of {name} after version {self.last_event}")
        self.last_event = seen.version
        history = self.events.setdefault(name, [])
        exists = bool(history) and history[-1].kind != "DELETED"
        if exists != (seen.kind != "ADDED"):
            self.violations.append(f"{name}: {seen} does not follow {history[-1:]}")
        history.append(seen)

    def shown(self) -> dict[str, int]:
        """What exists, by the events of the watch alone."""
        return {
            name: events[-1].value
            for name, events in self.events.items()
            if events[-1].kind != "DELETED"
        }

    def lost(self, found: dict[str, int]) -> list[str]:
        """Acknowledged writes that a listing does not show."""
        return [
            f"{name} was acknowledged as {key.value} (in doubt {key.doubt}), is {found.get(name)}"
            for name, key in self.keys.items()
            if found.get(name) not in key.possible()
        ]

    def gaps(self) -> list[str]:
        """Acknowledged writes that the watch never showed, since it last had to list."""
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
