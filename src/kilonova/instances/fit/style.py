"""The characters and colours of a picture. Pure.

Every state has a character of its own, so that a picture says the same without colours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase

from kilonova.component.command.output.colours import (
    Colour,
    assign_owner_colours,
    paint,
    paint_with,
)
from kilonova.instances.fit.accelerators import Accelerator, AcceleratorState
from kilonova.instances.fit.holders import Holder
from kilonova.instances.fit.topology_view import TopologyView


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of accelerators without a holder."""

    free: str = "·"
    unhealthy: str = "×"
    withheld: str = "~"
    unavailable: str = "-"
    next_copy: str = "#"
    other: str = "*"
    """Held by one of the many holders without a letter."""


ASCII = Glyphs(free=".", unhealthy="!")
UNICODE = Glyphs()

_COLOURS: Mapping[AcceleratorState, Colour] = {
    "Free": "green",
    "Unhealthy": "red",
    "Withheld": "grey",
    "Unavailable": "yellow",
}
_NODE_COLOURS: Mapping[str, Colour] = {
    "NotReady": "red",
    "Unreachable": "red",
    "Cordoned": "yellow",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a picture is drawn. Holders have letters, those with most accelerators first; an
    accelerator that is only partly used has a small one."""

    glyphs: Glyphs
    coloured: bool
    letters: Mapping[Holder, str]
    colours: Mapping[Holder, int]

    @classmethod
    def for_view(cls, view: TopologyView, *, coloured: bool, ascii_only: bool) -> "Style":
        """The style of a picture."""
        holders = [each.holder for each in view.holders[: len(ascii_uppercase)]]
        letters = dict(zip(holders, ascii_uppercase, strict=False))
        numbers = assign_owner_colours(map(str, holders))
        colours = {holder: numbers[str(holder)] for holder in holders}
        return cls(ASCII if ascii_only else UNICODE, coloured, letters, colours)

    def draw(self, accelerator: Accelerator) -> str:
        """The character of an accelerator."""
        if accelerator.is_next:
            return self.glyphs.next_copy
        if accelerator.state == "Unhealthy" or accelerator.holder is None:
            return self._state_glyph(accelerator.state)
        letter = self.letters.get(accelerator.holder, self.glyphs.other)
        return letter.lower() if accelerator.state == "Partial" else letter

    def paint_run(self, accelerator: Accelerator, text: str) -> str:
        """Characters of equal accelerators, in their colour."""
        if not self.coloured:
            return text
        if accelerator.is_next:
            return f"\x1b[1;7m{text}\x1b[0m"
        if accelerator.state == "Unhealthy" or accelerator.holder is None:
            return paint(text, _COLOURS.get(accelerator.state, ""))
        number = self.colours.get(accelerator.holder)
        return text if number is None else paint_with(text, number)

    def paint(self, text: str, colour: Colour) -> str:
        """Text in a colour."""
        return paint(text, colour) if self.coloured else text

    def bold(self, text: str) -> str:
        """The name of a domain."""
        return f"\x1b[1m{text}\x1b[0m" if self.coloured else text

    def format_states(self, states: tuple[str, ...]) -> str:
        """What is wrong with a node."""
        return ",".join(self.paint(state, _NODE_COLOURS.get(state, "")) for state in states)

    def _state_glyph(self, state: AcceleratorState) -> str:
        match state:
            case "Unhealthy":
                return self.glyphs.unhealthy
            case "Withheld":
                return self.glyphs.withheld
            case "Unavailable":
                return self.glyphs.unavailable
            case _:
                return self.glyphs.free
