"""How somebody looks at `kilonova top`: which page, filtered and sorted how; and what keys change
of it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Page = Literal["nodes", "workloads", "queues"]

PAGES: tuple[Page, ...] = ("nodes", "workloads", "queues")
ORDERS: dict[Page, tuple[str, ...]] = {
    "nodes": ("place", "name", "held", "free"),
    "workloads": ("state", "gpus", "age", "name"),
    "queues": ("tree", "used", "waiting"),
}

Key = str
"""`q`, `up`, `tab`, `enter`, …"""

_SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[Z": "backtab",
    "[5~": "pageup",
    "[6~": "pagedown",
    "[H": "home",
    "[F": "end",
    "[1~": "home",
    "[4~": "end",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
}
_SINGLE = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "erase", "\x08": "erase"}
_FAR = 1 << 30


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at."""

    page: Page = "nodes"
    filter: str = ""
    typing: bool = False
    """Whether keys go into the filter."""
    orders: tuple[int, ...] = (0,) * len(PAGES)
    offset: int = 0
    """The first line of the page that is seen."""
    wraps: bool = False
    """Whether lines that are too long go on in the next; else they are cropped."""

    @property
    def order(self) -> str:
        """By what the page is sorted."""
        return ORDERS[self.page][self.orders[PAGES.index(self.page)]]

    def scrolled(self, lines: int, last: int) -> "Look":
        """The same some lines further, as far as there are any."""
        return replace(self, offset=max(0, min(last, self.offset + lines)))


def keys_in(text: str) -> Iterator[Key]:
    """The keys that a terminal sent; sequences that mean nothing here are passed over."""
    rest = text
    while rest:
        if rest[0] == "\x1b":
            found = next((each for each in _SEQUENCES if rest.startswith(each, 1)), None)
            if found is not None:
                yield _SEQUENCES[found]
                rest = rest[1 + len(found) :]
            elif len(rest) > 1 and rest[1] in "[O":
                end = next((at for at, c in enumerate(rest[2:], 2) if "@" <= c <= "~"), len(rest))
                rest = rest[end + 1 :]
            else:
                yield "escape"
                rest = rest[1:]
        else:
            yield _SINGLE.get(rest[0], rest[0])
            rest = rest[1:]


def pressed(look: Look, key: Key, *, page_lines: int, last: int) -> Look | None:
    """How it is looked at after a key; None to leave. `last` is the largest offset."""
    if look.typing:
        return _typed(look, key)
    match key:
        case "q":
            return None
        case "tab" | "right":
            return _turned(look, 1)
        case "backtab" | "left":
            return _turned(look, -1)
        case "1" | "2" | "3":
            return replace(look, page=PAGES[int(key) - 1], offset=0)
        case "/":
            return replace(look, typing=True)
        case "escape":
            return replace(look, filter="", offset=0)
        case "s":
            return _sorted(look)
        case "w" | "enter":
            return replace(look, wraps=not look.wraps)
        case "up" | "k":
            return look.scrolled(-1, last)
        case "down" | "j":
            return look.scrolled(1, last)
        case "pageup":
            return look.scrolled(-page_lines, last)
        case "pagedown" | " ":
            return look.scrolled(page_lines, last)
        case "home" | "g":
            return look.scrolled(-_FAR, last)
        case "end" | "G":
            return look.scrolled(_FAR, last)
        case _:
            return look


def _typed(look: Look, key: Key) -> Look:
    match key:
        case "enter":
            return replace(look, typing=False)
        case "escape":
            return replace(look, typing=False, filter="", offset=0)
        case "erase":
            return replace(look, filter=look.filter[:-1], offset=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(look, filter=look.filter + key, offset=0)
        case _:
            return look


def _turned(look: Look, by: int) -> Look:
    page = PAGES[(PAGES.index(look.page) + by) % len(PAGES)]
    return replace(look, page=page, offset=0)


def _sorted(look: Look) -> Look:
    place = PAGES.index(look.page)
    orders = list(look.orders)
    orders[place] = (orders[place] + 1) % len(ORDERS[look.page])
    return replace(look, orders=tuple(orders), offset=0)
