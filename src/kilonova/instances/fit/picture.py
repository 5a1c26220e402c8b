"""The picture of a topology, in lines: headings of zones and blocks, racks as tiles. Pure.

Detail `node` draws each node, equal ones folded; a level draws each of its domains in one line.
Without a detail, it is the finest with which the picture is not too long.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kilonova.component.command.output.formats import pluralize
from kilonova.component.command.output.terminal_text import (
    crop,
    strip_control_characters,
    wrap,
)
from kilonova.instances.fit.cells import Totals
from kilonova.instances.fit.legend import draw_legend
from kilonova.instances.fit.style import Style
from kilonova.instances.fit.tiles import (
    Tile,
    arrange_tiles,
    build_node_tile,
    build_summary_tiles,
)
from kilonova.instances.fit.topology_view import NodeView, TopologyView
from kilonova.scheduler.library.topology_levels import format_domain

NODE = "node"
MAX_LINES = 160
"""The most lines of a picture whose detail is chosen for it."""
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """How a picture is drawn."""

    width: int = 80
    coloured: bool = False
    ascii_only: bool = False
    detail: str = ""
    """`node`, or the last part of the key of a level: `rack`."""


def draw_picture(view: TopologyView, options: PictureOptions) -> list[str]:
    """The lines of a picture, none wider than the terminal."""
    style = Style.for_view(view, coloured=options.coloured, ascii_only=options.ascii_only)
    drawn = list(_draw_topology(view, style, options))
    summary = wrap(_draw_summary(view), options.width)
    lines = [*summary, "", *drawn, "", *draw_legend(view, style, options.width)]
    cropped = (crop(line, options.width) for line in lines)
    return [line.replace("…", "~") if options.ascii_only else line for line in cropped]


def list_details(levels: Sequence[str]) -> tuple[str, ...]:
    """The details that a picture of these levels may have, finest first."""
    return (NODE, *(level.rpartition("/")[2] for level in reversed(levels)))


def _draw_topology(view: TopologyView, style: Style, options: PictureOptions) -> list[str]:
    details = list_details(view.levels)
    depths = range(len(details)) if not options.detail else (details.index(options.detail),)
    lines: list[str] = []
    for depth in depths:
        lines = list(_draw_domains(view, view.nodes, style, options.width, depth, 0))
        if len(lines) <= MAX_LINES:
            break
    return lines


def _draw_domains(
    view: TopologyView,
    nodes: Sequence[NodeView],
    style: Style,
    width: int,
    depth: int,
    level: int,
) -> Iterator[str]:
    """The domains of a level: tiles at the last level of the picture, above it headings with what
    is below."""
    last = len(view.levels) - max(depth, 1)
    domains = [(name, list(some)) for name, some in groupby(nodes, key=lambda n: _at(n, level))]
    indent = _INDENT * level
    if level >= last:
        tiles = _build_tiles(view, domains, style, level, is_folded=depth > 0)
        yield from _indent(arrange_tiles(tiles, width - len(indent)), indent)
        return
    for is_plain, some in groupby(domains, key=lambda each: depth > 0 and _is_uniform(each[1])):
        if is_plain:
            tiles = _build_tiles(view, list(some), style, level, is_folded=True)
            yield from _indent(arrange_tiles(tiles, width - len(indent)), indent)
            continue
        for name, inside in some:
            if name or len(domains) > 1:
                yield indent + _draw_heading(view, name, inside, style, level)
            yield from _draw_domains(view, inside, style, width, depth, level + 1)


def _build_tiles(
    view: TopologyView,
    domains: Sequence[tuple[str, list[NodeView]]],
    style: Style,
    level: int,
    *,
    is_folded: bool,
) -> list[Tile]:
    named = [
        (_name_domain(view, name, level), nodes, _annotation_of(view, nodes[0], level))
        for name, nodes in domains
    ]
    if is_folded:
        return build_summary_tiles(named, style)
    if len(domains) == 1 and not domains[0][0]:
        # Nodes in no domain are tiles themselves.
        return [Tile((line,)) for line in build_node_tile("", domains[0][1], style).lines]
    return [build_node_tile(name, nodes, style, text) for name, nodes, text in named]


def _draw_heading(
    view: TopologyView, name: str, nodes: Sequence[NodeView], style: Style, level: int
) -> str:
    annotation = _annotation_of(view, nodes[0], level)
    text = _format_totals(Totals.of(nodes))
    return f"{style.bold(_name_domain(view, name, level))}  {style.paint(text, 'grey')}" + (
        f"  {annotation}" if annotation else ""
    )


def _format_totals(totals: Totals) -> str:
    parts = [f"{pluralize(totals.nodes, 'node')}, {totals.free} of {totals.accelerators} free"]
    parts += [f"{totals.unavailable} not schedulable"] if totals.unavailable else []
    parts += [f"{totals.unhealthy} unhealthy"] if totals.unhealthy else []
    return ", ".join(parts)


def _draw_summary(view: TopologyView) -> str:
    others = f"; {pluralize(view.other_nodes, 'other node')}" if view.other_nodes else ""
    return f"{view.resource}: {_format_totals(Totals.of(view.nodes))}{others}"


def _is_uniform(nodes: Sequence[NodeView]) -> bool:
    """Whether all accelerators of a domain are in one state: its parts need not be drawn."""
    first = nodes[0].accelerators[0]
    return all(
        not node.states and not node.annotation and all(each == first for each in node.accelerators)
        for node in nodes
    )


def _at(node: NodeView, level: int) -> str:
    return node.domain[level] if level < len(node.domain) else ""


def _annotation_of(view: TopologyView, node: NodeView, level: int) -> str:
    return view.annotations.get(format_domain(node.domain[: level + 1]), "")


def _indent(lines: Iterable[str], indent: str) -> Iterator[str]:
    return (f"{indent}{line}" if line else line for line in lines)


def _name_domain(view: TopologyView, name: str, level: int) -> str:
    missing = f"(no {view.levels[level].rpartition('/')[2]})" if view.levels else ""
    return strip_control_characters(name) or missing
