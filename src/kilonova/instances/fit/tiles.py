"""Domains as tiles, side by side: a rack with its nodes, or in one line. Pure.

Equal nodes of a tile are one line, `h100-[0-3]`; equal neighbouring tiles of one line are one tile.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kilonova.component.command.output.terminal_text import crop, display_width
from kilonova.instances.fit.accelerators import Accelerator
from kilonova.instances.fit.cells import MAX_CELLS, Totals, draw_bar, draw_node_cells
from kilonova.instances.fit.folded_names import fold_names
from kilonova.instances.fit.style import Style
from kilonova.instances.fit.topology_view import NodeView

_GAP = 3


@dataclass(frozen=True, slots=True)
class Tile:
    """Lines that are drawn as a block."""

    lines: tuple[str, ...]


def build_node_tile(
    name: str, nodes: Sequence[NodeView], style: Style, annotation: str = ""
) -> Tile:
    """A domain with a line for each node, equal ones folded; without a name, the nodes alone."""
    lines = [_format_title(name, Totals.of(nodes), style, annotation)] if name else []
    return Tile((*lines, *_draw_nodes(nodes, style)))


def build_summary_tiles(
    domains: Iterable[tuple[str, Sequence[NodeView], str]], style: Style
) -> list[Tile]:
    """Domains with their nodes and annotations, a line each: equal neighbours are folded."""
    summaries = ((name, _summarize(nodes, style), text) for name, nodes, text in domains)
    folded = [
        (fold_names([name for name, _, _ in some]), summary, text)
        for (summary, text), some in groupby(summaries, key=lambda each: each[1:])
    ]
    longest = max((len(name) for name, _, _ in folded), default=0)
    return [
        Tile((f"{name.ljust(longest)} {summary}" + (f"  {text}" if text else ""),))
        for name, summary, text in folded
    ]


def arrange_tiles(tiles: Sequence[Tile], width: int) -> Iterator[str]:
    """Tiles in rows of columns with equal widths."""
    if not tiles:
        return
    widest = max(display_width(line) for tile in tiles for line in tile.lines)
    column = min(widest, width)
    columns = max(1, (width + _GAP) // (column + _GAP))
    for start in range(0, len(tiles), columns):
        row = tiles[start : start + columns]
        for number in range(max(len(tile.lines) for tile in row)):
            cells = (tile.lines[number] if number < len(tile.lines) else "" for tile in row)
            yield (" " * _GAP).join(_pad(crop(cell, column), column) for cell in cells).rstrip()


def _draw_nodes(nodes: Sequence[NodeView], style: Style) -> Iterator[str]:
    groups: dict[tuple[tuple[Accelerator, ...], tuple[str, ...], str], list[str]] = {}
    for node in nodes:
        key = node.accelerators, node.states, node.annotation
        groups.setdefault(key, []).append(node.name)
    first = {node.name: node for node in nodes}
    longest = max((min(len(node.accelerators), MAX_CELLS) for node in nodes), default=0)
    for (accelerators, states, annotation), names in groups.items():
        cells = draw_node_cells(first[names[0]], style)
        padding = " " * (longest - min(len(accelerators), MAX_CELLS))
        size = f" of {len(accelerators)}" if len(accelerators) > MAX_CELLS else ""
        parts = [f"{cells}{padding} {fold_names(names)}{size}"]
        parts += [style.format_states(states)] if states else []
        parts += [annotation] if annotation else []
        yield " ".join(parts)


def _summarize(nodes: Sequence[NodeView], style: Style) -> str:
    totals = Totals.of(nodes)
    bar = draw_bar(Counter(each for node in nodes for each in node.accelerators), style)
    problems = Counter(state for node in nodes for state in node.states)
    noted = "".join(
        f" {count} {style.format_states((state,))}" for state, count in sorted(problems.items())
    )
    return f"{bar} {totals.free}/{totals.accelerators} free{noted}"


def _format_title(name: str, totals: Totals, style: Style, annotation: str) -> str:
    free = style.paint(f"{totals.free}/{totals.accelerators} free", "grey")
    return f"{style.bold(name)}  {free}" + (f"  {annotation}" if annotation else "")


def _pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))
