"""What the letters and marks of a picture mean. Pure."""

from collections import Counter
from collections.abc import Iterator

from kilonova.component.command.output.colours import paint_with
from kilonova.component.command.output.formats import format_table, pluralize
from kilonova.instances.fit.style import Style
from kilonova.instances.fit.topology_view import TopologyView

_HEADER = ("", "HELD BY", "HELD", "NODES", "DOMAIN", "KIND")


def draw_legend(view: TopologyView, style: Style, width: int) -> Iterator[str]:
    """The holders with their letters, without their kinds where these are too wide; the marks."""
    yield from _draw_holders(view, style, width)
    text = "   ".join(_list_marks(view, style))
    if text:
        yield text


def _draw_holders(view: TopologyView, style: Style, width: int) -> Iterator[str]:
    lettered, others = view.holders[: len(style.letters)], view.holders[len(style.letters) :]
    rows = [
        (
            style.letters[each.holder],
            each.holder.name,
            str(each.accelerators),
            str(each.nodes),
            each.domain or "-",
            each.holder.kind,
        )
        for each in lettered
    ]
    if rows:
        header, *lines = format_table(_HEADER, rows).split("\n")
        if max(map(len, lines)) > width:
            narrow = [row[:-1] for row in rows]
            header, *lines = format_table(_HEADER[:-1], narrow).split("\n")
        yield header
        for line, each in zip(lines, lettered, strict=True):
            letter = paint_with(line[0], style.colours[each.holder]) if style.coloured else line[0]
            yield f"{letter}{line[1:]}"
    if others:
        held = sum(each.accelerators for each in others)
        yield f"{style.glyphs.other}   {pluralize(len(others), 'more holder')} of {held}"
    if rows:
        yield ""


def _list_marks(view: TopologyView, style: Style) -> Iterator[str]:
    seen = {each for node in view.nodes for each in node.accelerators}
    states = Counter(each.state for each in seen if each.holder is None and not each.is_next)
    glyphs = style.glyphs
    if states["Free"]:
        yield f"{glyphs.free} free"
    if any(each.is_next for each in seen):
        yield f"{glyphs.next_copy} next copy"
    if any(each.state == "Partial" for each in seen):
        yield "a partly used"
    if states["Unavailable"]:
        yield f"{glyphs.unavailable} free, node not schedulable"
    if any(each.state == "Unhealthy" for each in seen):
        yield f"{glyphs.unhealthy} unhealthy"
    if states["Withheld"]:
        yield f"{glyphs.withheld} for MIG instances only"
