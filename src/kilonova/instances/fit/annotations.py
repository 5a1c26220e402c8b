"""Texts that other packages add to nodes and domains of the picture, found by entry point.

    [project.entry-points."kilonova.fit"]
    power = "our_package:rack_power"

    def rack_power(view: TopologyView) -> Mapping[str, str]: ...

A key is the name of a node, or the path of a domain (`zone-a/block-1/rack-2`); the text is shown
behind it. A plug-in that fails is named in a warning, and the picture is drawn without it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import cast

from kilonova.component.command.output.terminal_text import to_one_line
from kilonova.instances.fit.topology_view import TopologyView

GROUP = "kilonova.fit"
_MAX_LENGTH = 40

Annotate = Callable[[TopologyView], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class AnnotatedView:
    """The view with all texts, and a warning for each plug-in that failed."""

    view: TopologyView
    warnings: tuple[str, ...]


def annotate_view(view: TopologyView, plugins: Iterable[EntryPoint]) -> AnnotatedView:
    """Ask plug-ins for texts, in the order of their names."""
    texts: dict[str, list[str]] = {}
    warnings: list[str] = []
    for point in sorted(plugins, key=lambda each: each.name):
        try:
            found = _call(cast("Annotate", point.load()), view)
        except Exception as error:
            where = f"{point.name} ({point.value})"
            warnings.append(f"plug-in {where} of {GROUP} failed and is left out: {error!r}")
            continue
        for place, text in found.items():
            texts.setdefault(place, []).append(to_one_line(text)[:_MAX_LENGTH])
    joined = {place: ", ".join(some) for place, some in texts.items()}
    nodes = tuple(
        replace(node, annotation=joined.pop(node.name)) if node.name in joined else node
        for node in view.nodes
    )
    return AnnotatedView(replace(view, nodes=nodes, annotations=joined), tuple(warnings))


def _call(annotate: Annotate, view: TopologyView) -> dict[str, str]:
    found = dict(cast("Mapping[object, object]", annotate(view)))
    for place, text in found.items():
        if not isinstance(place, str) or not isinstance(text, str):
            raise TypeError(f"returned {place!r}: {text!r}: want texts by node or domain")
    return cast("dict[str, str]", found)
