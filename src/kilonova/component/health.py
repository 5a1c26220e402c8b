"""The health of components in a process: which are degraded, and why."""

from collections.abc import Callable

import msgspec

from kilonova.component.command.output.terminal_text import to_one_line
from kilonova.kube import ComponentHealth


class DegradedComponent(msgspec.Struct, frozen=True):
    """A component that has failed, and has not recovered yet."""

    name: str
    problem: str
    """What happened, as the rest of a sentence that begins with its name."""


class ComponentProblems:
    """The components that are degraded now; a listener is notified of changes."""

    def __init__(self) -> None:
        self._degraded: dict[str, DegradedComponent] = {}
        self._notify: Callable[[], None] = lambda: None

    @property
    def degraded(self) -> list[DegradedComponent]:
        """The degraded components, by name."""
        return [self._degraded[name] for name in sorted(self._degraded)]

    def subscribe(self, notify: Callable[[], None]) -> None:
        """Call `notify` on every change; a later subscriber replaces an earlier one."""
        self._notify = notify

    def report(self, name: str, health: ComponentHealth) -> None:
        """Record the health of a component that has failed or recovered."""
        if health.problem:
            self._degraded[name] = DegradedComponent(name, describe_failure(health))
        else:
            self._degraded.pop(name, None)
        self._notify()


def describe_failure(health: ComponentHealth) -> str:
    """`failed 2 times and is restarted with backoff: …`, on one line: errors may have several."""
    times = "once" if health.restarts == 1 else f"{health.restarts} times"
    return f"failed {times} and is restarted with backoff: {to_one_line(health.problem)}"
