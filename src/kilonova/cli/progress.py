"""How far a start is: a few steps, each done, under way or next; and a live display of them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:  # Rich is loaded for people at terminals
    from rich.table import Table

Stage = Literal["next", "going", "done"]


class Step(msgspec.Struct, frozen=True):
    """A step of a start, and what there is to say about it."""

    name: str
    stage: Stage = "next"
    note: str = ""


class Steps:
    """The steps of one start, in order. `tell` hears of all of them whenever one changes."""

    def __init__(self, names: Sequence[str], tell: Callable[[Sequence[Step]], None]) -> None:
        self._steps = {name: Step(name) for name in names}
        self._tell = tell

    def going(self, name: str, note: str = "") -> None:
        """It is under way."""
        self._take(Step(name, "going", note))

    def done(self, name: str, note: str = "") -> None:
        """It is done."""
        self._take(Step(name, "done", note))

    def _take(self, step: Step) -> None:
        if self._steps[step.name] != step:
            self._steps[step.name] = step
            self._tell(list(self._steps.values()))


class Display:
    """The steps at a terminal, on standard error, until they make way for what is said next."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=10)

    def show(self, steps: Sequence[Step]) -> None:
        """These are the steps now."""
        self._live.update(self._table(steps))
        if not self._live.is_started:
            self._live.start(refresh=True)

    def clear(self) -> None:
        """Leave the terminal as it was."""
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
