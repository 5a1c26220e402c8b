"""The lists that there are: nodes, gangs, workloads; where they come from, and their columns.

Another one is a view of rows (`views`), a `Kind` here, and a command like `nodes`.
"""

import time

from kilonova.cli.listing import Column, Kind
from kilonova.cli.printing import age, amount, gibibytes, short
from kilonova.cli.screen import one_line
from kilonova.cli.sources import Source, owner_sources
from kilonova.cli.views import (
    GangView,
    NodeView,
    WorkloadView,
    gang_views,
    node_views,
    workload_views,
)


def _node_sources(namespace: str | None, selector: str) -> tuple[Source, ...]:
    return (Source("nodes", labels=selector), Source("pods"))


def _gang_sources(namespace: str | None, selector: str) -> tuple[Source, ...]:
    return (Source("gangs", namespace, selector), Source("pods", namespace))


def _workload_sources(namespace: str | None, selector: str) -> tuple[Source, ...]:
    pods = Source("pods", namespace, selector)
    gangs = Source("gangs", namespace, optional=True)
    return (pods, gangs, Source("nodes", optional=True), *owner_sources(namespace))


NODES: Kind[NodeView] = Kind(
    what="node",
    sources=_node_sources,
    views=node_views,
    reference=lambda view: f"node/{view.name}",
    columns=(
        Column("NAME", lambda view: view.name),
        Column("STATUS", lambda view: view.status, state=True),
        Column("RACK", lambda view: view.rack or "-"),
        Column(
            "GPUS",
            lambda view: f"{amount(view.gpus_held)}/{view.gpus}" if view.gpus else "-",
            order=lambda view: view.gpus,
        ),
        Column("PRODUCT", lambda view: view.product or "-"),
        Column("PODS", lambda view: str(view.pods), order=lambda view: view.pods),
        Column(
            "AGE",
            lambda view: age(view.created, time.time()),
            order=lambda view: -(view.created or 0.0),
        ),
        Column("BLOCK", lambda view: view.block or "-", wide=True),
        Column("ZONE", lambda view: view.zone or "-", wide=True),
        Column("CPU", lambda view: amount(view.cpu), order=lambda view: view.cpu, wide=True),
        Column(
            "MEMORY",
            lambda view: gibibytes(view.memory),
            order=lambda view: view.memory,
            wide=True,
        ),
        Column(
            "PRICE",
            lambda view: "-" if view.price is None else f"${view.price:.2f}",
            order=lambda view: view.price or 0.0,
            wide=True,
        ),
        Column("PROBLEM", lambda view: one_line(view.problem) or "-", wide=True),
    ),
)

GANGS: Kind[GangView] = Kind(
    what="gang",
    sources=_gang_sources,
    views=gang_views,
    reference=lambda view: f"podgang/{view.name}",
    namespace=lambda view: view.namespace,
    state="phase",
    columns=(
        Column("NAME", lambda view: view.name),
        Column("PHASE", lambda view: view.phase, state=True),
        Column("PODS", lambda view: str(view.pods), order=lambda view: view.pods),
        Column("READY", lambda view: f"{view.ready}/{view.pods}", order=lambda view: view.ready),
        Column("GPUS", lambda view: amount(view.gpus), order=lambda view: view.gpus),
        Column("QUEUE", lambda view: view.queue),
        Column(
            "AGE",
            lambda view: age(view.created, time.time()),
            order=lambda view: -(view.created or 0.0),
        ),
        Column("NODES", lambda view: ",".join(view.nodes) or "-", wide=True),
        Column("TOPOLOGY", lambda view: one_line(view.topology) or "-", wide=True),
        Column(
            "SCORE",
            lambda view: "-" if view.score is None else f"{view.score:.2f}",
            order=lambda view: view.score or 0.0,
            wide=True,
        ),
        Column("WHY", lambda view: short(view.why), in_wide=lambda view: one_line(view.why) or "-"),
    ),
)

WORKLOADS: Kind[WorkloadView] = Kind(
    what="workload",
    sources=_workload_sources,
    views=workload_views,
    reference=lambda view: f"{view.kind.lower()}/{view.name}",
    namespace=lambda view: view.namespace,
    columns=(
        Column("KIND", lambda view: view.kind),
        Column("NAME", lambda view: view.name),
        Column("STATUS", lambda view: view.status, state=True),
        Column("READY", lambda view: f"{view.ready}/{view.pods}", order=lambda view: view.ready),
        Column("GPUS", lambda view: amount(view.gpus), order=lambda view: view.gpus),
        Column("QUEUE", lambda view: view.queue),
        Column(
            "AGE",
            lambda view: age(view.created, time.time()),
            order=lambda view: -(view.created or 0.0),
        ),
        Column("NODES", lambda view: ",".join(view.nodes) or "-", wide=True),
        Column(
            "RESTARTS", lambda view: str(view.restarts), order=lambda view: view.restarts, wide=True
        ),
        Column(
            "PRICE",
            lambda view: "-" if view.price is None else f"${view.price:.2f}",
            order=lambda view: view.price or 0.0,
            wide=True,
        ),
        Column("WHY", lambda view: short(view.why), in_wide=lambda view: one_line(view.why) or "-"),
    ),
)
