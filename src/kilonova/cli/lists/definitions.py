"""The definitions of the lists of nodes, gangs and workloads: sources and columns.

To add a list: a view (`views`), a `ListDefinition` here, and a command like `commands.nodes`.
"""

import time

from kilonova.cli.lists.resource_list import Column, ListDefinition
from kilonova.cli.lists.table_sources import TableSource, owner_sources
from kilonova.cli.lists.views import (
    GangView,
    NodeView,
    WorkloadView,
    gang_views,
    node_views,
    workload_views,
)
from kilonova.component.command.output.list_printer import (
    format_age,
    format_gibibytes,
    format_number,
    shorten,
)
from kilonova.component.command.output.terminal_text import to_one_line


def _node_sources(namespace: str | None, selector: str) -> tuple[TableSource, ...]:
    return (TableSource("nodes", labels=selector), TableSource("pods"))


def _gang_sources(namespace: str | None, selector: str) -> tuple[TableSource, ...]:
    return (TableSource("gangs", namespace, selector), TableSource("pods", namespace))


def _workload_sources(namespace: str | None, selector: str) -> tuple[TableSource, ...]:
    pods = TableSource("pods", namespace, selector)
    gangs = TableSource("gangs", namespace, optional=True)
    return (pods, gangs, TableSource("nodes", optional=True), *owner_sources(namespace))


def _format_workload_price(view: WorkloadView) -> str:
    """The price of its GPUs, and how many of them are not in it."""
    known = [] if view.price is None else [f"${view.price:.2f}"]
    unknown = [f"{format_number(view.unpriced_gpus)} unpriced"] if view.unpriced_gpus else []
    return " + ".join(known + unknown) or "-"


NODES: ListDefinition[NodeView] = ListDefinition(
    noun="node",
    sources=_node_sources,
    views=node_views,
    reference=lambda view: f"node/{view.name}",
    columns=(
        Column("NAME", lambda view: view.name),
        Column("STATUS", lambda view: view.status, is_state=True),
        Column("RACK", lambda view: view.rack or "-"),
        Column(
            "GPUS",
            lambda view: f"{format_number(view.gpus_allocated)}/{view.gpus}" if view.gpus else "-",
            sort_key=lambda view: view.gpus,
        ),
        Column("PRODUCT", lambda view: view.product or "-"),
        Column("PODS", lambda view: str(view.pods), sort_key=lambda view: view.pods),
        Column(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        Column("BLOCK", lambda view: view.block or "-", wide_only=True),
        Column("ZONE", lambda view: view.zone or "-", wide_only=True),
        Column(
            "CPU",
            lambda view: format_number(view.cpu),
            sort_key=lambda view: view.cpu,
            wide_only=True,
        ),
        Column(
            "MEMORY",
            lambda view: format_gibibytes(view.memory),
            sort_key=lambda view: view.memory,
            wide_only=True,
        ),
        Column("MACHINE", lambda view: view.machine or "-", wide_only=True),
        Column(
            "PRICE",
            lambda view: "-" if view.price is None else f"${view.price:.2f}",
            sort_key=lambda view: view.price or 0.0,
            wide_only=True,
        ),
        Column(
            "NODE-PRICE",
            lambda view: "-" if view.node_price is None else f"${view.node_price:.2f}",
            sort_key=lambda view: view.node_price or 0.0,
            wide_only=True,
        ),
        Column("PROBLEM", lambda view: to_one_line(view.problem) or "-", wide_only=True),
    ),
)

GANGS: ListDefinition[GangView] = ListDefinition(
    noun="gang",
    sources=_gang_sources,
    views=gang_views,
    reference=lambda view: f"podgang/{view.name}",
    namespace=lambda view: view.namespace,
    state_field="phase",
    columns=(
        Column("NAME", lambda view: view.name),
        Column("PHASE", lambda view: view.phase, is_state=True),
        Column("PODS", lambda view: str(view.pods), sort_key=lambda view: view.pods),
        Column("READY", lambda view: f"{view.ready}/{view.pods}", sort_key=lambda view: view.ready),
        Column("GPUS", lambda view: format_number(view.gpus), sort_key=lambda view: view.gpus),
        Column("QUEUE", lambda view: view.queue),
        Column(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        Column("NODES", lambda view: ",".join(view.nodes) or "-", wide_only=True),
        Column("TOPOLOGY", lambda view: to_one_line(view.topology) or "-", wide_only=True),
        Column(
            "SCORE",
            lambda view: "-" if view.score is None else f"{view.score:.2f}",
            sort_key=lambda view: view.score or 0.0,
            wide_only=True,
        ),
        Column(
            "WHY",
            lambda view: shorten(view.why),
            wide_cell=lambda view: to_one_line(view.why) or "-",
        ),
    ),
)

WORKLOADS: ListDefinition[WorkloadView] = ListDefinition(
    noun="workload",
    sources=_workload_sources,
    views=workload_views,
    reference=lambda view: f"{view.kind.lower()}/{view.name}",
    namespace=lambda view: view.namespace,
    columns=(
        Column("KIND", lambda view: view.kind),
        Column("NAME", lambda view: view.name),
        Column("STATUS", lambda view: view.status, is_state=True),
        Column("READY", lambda view: f"{view.ready}/{view.pods}", sort_key=lambda view: view.ready),
        Column("GPUS", lambda view: format_number(view.gpus), sort_key=lambda view: view.gpus),
        Column("QUEUE", lambda view: view.queue),
        Column(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        Column("NODES", lambda view: ",".join(view.nodes) or "-", wide_only=True),
        Column(
            "RESTARTS",
            lambda view: str(view.restarts),
            sort_key=lambda view: view.restarts,
            wide_only=True,
        ),
        Column(
            "PRICE",
            _format_workload_price,
            sort_key=lambda view: view.price or 0.0,
            wide_only=True,
        ),
        Column(
            "WHY",
            lambda view: shorten(view.why),
            wide_cell=lambda view: to_one_line(view.why) or "-",
        ),
    ),
)
