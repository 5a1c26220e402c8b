"""What `kilonova fit` prints: reads snapshot and build, computes the view, and draws it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilonova.catalog.resource_names import GPU
from kilonova.component.entry_points import find_entry_points
from kilonova.component.failure import CommandFailed
from kilonova.instances.alloc.allocation import Allocation
from kilonova.instances.commands.builds.source import load_build
from kilonova.instances.commands.placement.allocations import ClusterSource, allocate_build
from kilonova.instances.commands.placement.terminal import Terminal
from kilonova.instances.fit.annotations import GROUP, annotate_view
from kilonova.instances.fit.answer import format_answer
from kilonova.instances.fit.picture import PictureOptions, draw_picture, list_details
from kilonova.instances.fit.topology_view import (
    TopologyView,
    list_resources,
    select_domains,
    view_topology,
)

_MAX_NAMES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """The arguments of the command."""

    domains: tuple[str, ...]
    build: str
    builds: str | None
    strategy: str
    limit: int
    resource: str
    levels: tuple[str, ...]
    source: ClusterSource


@dataclass(frozen=True, slots=True)
class FitReport:
    """The view of a cluster, and what there is to report of a build."""

    view: TopologyView
    allocation: Allocation | None
    now: float
    warnings: tuple[str, ...]

    def to_document(self) -> dict[str, object]:
        """The JSON output."""
        document: dict[str, object] = {"topology": self.view}
        return document | ({} if self.allocation is None else {"allocation": self.allocation})

    def draw(self, terminal: Terminal, level: str) -> Iterator[str]:
        """The lines to print."""
        known = list_details(self.view.levels)
        if level and level not in known:
            raise CommandFailed(f"--level: no level {level!r}: use one of {', '.join(known)}")
        options = PictureOptions(terminal.width, terminal.coloured, terminal.ascii_only, level)
        yield from draw_picture(self.view, options)
        if self.allocation is not None:
            yield ""
            yield from format_answer(self.allocation, self.now)


def report_fit(request: FitRequest) -> FitReport:
    """Read what is asked for, and compute the answer."""
    build = load_build(request.build, request.builds) if request.build else None
    cluster_snapshot = request.source.load_snapshot()
    allocation = None
    if build is not None:
        namespace = request.source.find_namespace()
        allocation = allocate_build(
            build, request.strategy, namespace, cluster_snapshot, request.limit
        )
    resource = request.resource or (build.accelerator.resource if build is not None else GPU)
    placed = () if allocation is None else allocation.copies.placed[:1]
    next_copy = placed[0].pods if placed else ()
    view = view_topology(cluster_snapshot, resource, request.levels, next_copy)
    if not view.nodes:
        offered = ", ".join(list_resources(cluster_snapshot)[:_MAX_NAMES]) or "none"
        raise CommandFailed(f"no node offers {resource}: give --resource, offered are {offered}")
    annotated = annotate_view(view, find_entry_points(GROUP))
    selected = _select_domains(annotated.view, request.domains)
    return FitReport(selected, allocation, cluster_snapshot.now, annotated.warnings)


def _select_domains(view: TopologyView, domains: Sequence[str]) -> TopologyView:
    selected = select_domains(view, domains) if domains else view
    for domain in domains:
        if not select_domains(view, (domain,)).nodes:
            known = dict.fromkeys(name for node in view.nodes for name in node.domain if name)
            some = ", ".join(list(known)[:_MAX_NAMES]) or "none"
            raise CommandFailed(f"no domain {domain!r} has {view.resource}: domains are {some} …")
    return selected
