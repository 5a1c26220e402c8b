"""Progress of a start: steps that are done, in progress or next, and a live display of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:  # Rich is imported only for terminals
    from rich.table import Table

Stage = Literal["next", "going", "done"]


class Step(msgspec.Struct, frozen=True):
    """A step of a start."""

    name: str
    stage: Stage = "next"
    note: str = ""


class StartupSteps:
    """The steps of a start, in order. `on_change` receives all steps when one changes."""

    def __init__(self, names: Sequence[str], on_change: Callable[[Sequence[Step]], None]) -> None:
        self._steps = {name: Step(name) for name in names}
        self._on_change = on_change

    def start(self, name: str, note: str = "") -> None:
        """Mark a step as in progress."""
        self._update(Step(name, "going", note))

    def finish(self, name: str, note: str = "") -> None:
        """Mark a step as done."""
        self._update(Step(name, "done", note))

    def _update(self, step: Step) -> None:
        if self._steps[step.name] != step:
            self._steps[step.name] = step
            self._on_change(list(self._steps.values()))


class ProgressDisplay:
    """Draws the steps on standard error, until it is cleared."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=10)

    def show(self, steps: Sequence[Step]) -> None:
        """Draw the current steps."""
        self._live.update(self._table(steps))
        if not self._live.is_started:
            self._live.start(refresh=True)

    def clear(self) -> None:
        """Remove the display from the terminal."""
        self._live.stop()

    def _table(self, steps: Sequence[Step]) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2, 0, 0))
        for step in steps:
            match step.stage:
                case "done":
                    mark, style = Text("✓", style="green"), ""
                case "going":
                    mark, style = self._spinner, "bold"
                case "next":
                    mark, style = Text("·", style="dim"), "dim"
            table.add_row(mark, Text(step.name, style=style), Text(step.note, style="dim"))
        return table
