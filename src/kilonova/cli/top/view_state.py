"""The view state of `kilonova top` (page, filter, order, scroll offset) and its keys. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

PageName = Literal["nodes", "workloads", "queues"]

PAGES: tuple[PageName, ...] = ("nodes", "workloads", "queues")
ORDERS: dict[PageName, tuple[str, ...]] = {
    "nodes": ("topology", "name", "used", "free"),
    "workloads": ("state", "gpus", "age", "name"),
    "queues": ("tree", "used", "pending"),
}

KeyName = str
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
_SCROLL_TO_END = 1 << 30


@dataclass(frozen=True, slots=True)
class ViewState:
    """What the user has selected."""

    page: PageName = "nodes"
    filter: str = ""
    typing: bool = False
    """Whether keys edit the filter."""
    orders: tuple[int, ...] = (0,) * len(PAGES)
    offset: int = 0
    """The first visible line of the page."""
    wraps: bool = False
    """Whether long lines are wrapped instead of cropped."""

    @property
    def order(self) -> str:
        """The sort order of the page."""
        return ORDERS[self.page][self.orders[PAGES.index(self.page)]]

    def scroll(self, lines: int, max_offset: int) -> "ViewState":
        """The state scrolled by some lines, within the page."""
        return replace(self, offset=max(0, min(max_offset, self.offset + lines)))


def parse_keys(text: str) -> Iterator[KeyName]:
    """The keys in the input of a terminal; unknown escape sequences are skipped."""
    rest = text
    while rest:
        if rest[0] == "\x1b":
            found = next((each for each in _SEQUENCES if rest.startswith(each, 1)), None)
            if found is not None:
                yield _SEQUENCES[found]
                rest = rest[1 + len(found) :]
            elif len(rest) > 1 and rest[1] in "[O":
                end = next((i for i, c in enumerate(rest[2:], 2) if "@" <= c <= "~"), len(rest))
                rest = rest[end + 1 :]
            else:
                yield "escape"
                rest = rest[1:]
        else:
            yield _SINGLE.get(rest[0], rest[0])
            rest = rest[1:]


def apply_key(
    state: ViewState, key: KeyName, *, page_lines: int, max_offset: int
) -> ViewState | None:
    """The state after a key; None to quit."""
    if state.typing:
        return _edit_filter(state, key)
    match key:
        case "q":
            return None
        case "tab" | "right":
            return _switch_page(state, 1)
        case "backtab" | "left":
            return _switch_page(state, -1)
        case "1" | "2" | "3":
            return replace(state, page=PAGES[int(key) - 1], offset=0)
        case "/":
            return replace(state, typing=True)
        case "escape":
            return replace(state, filter="", offset=0)
        case "s":
            return _cycle_order(state)
        case "w" | "enter":
            return replace(state, wraps=not state.wraps)
        case "up" | "k":
            return state.scroll(-1, max_offset)
        case "down" | "j":
            return state.scroll(1, max_offset)
        case "pageup":
            return state.scroll(-page_lines, max_offset)
        case "pagedown" | " ":
            return state.scroll(page_lines, max_offset)
        case "home" | "g":
            return state.scroll(-_SCROLL_TO_END, max_offset)
        case "end" | "G":
            return state.scroll(_SCROLL_TO_END, max_offset)
        case _:
            return state


def _edit_filter(state: ViewState, key: KeyName) -> ViewState:
    match key:
        case "enter":
            return replace(state, typing=False)
        case "escape":
            return replace(state, typing=False, filter="", offset=0)
        case "erase":
            return replace(state, filter=state.filter[:-1], offset=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(state, filter=state.filter + key, offset=0)
        case _:
            return state


def _switch_page(state: ViewState, by: int) -> ViewState:
    page = PAGES[(PAGES.index(state.page) + by) % len(PAGES)]
    return replace(state, page=page, offset=0)


def _cycle_order(state: ViewState) -> ViewState:
    index = PAGES.index(state.page)
    orders = list(state.orders)
    orders[index] = (orders[index] + 1) % len(ORDERS[state.page])
    return replace(state, orders=tuple(orders), offset=0)
