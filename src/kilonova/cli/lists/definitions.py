"""The definitions of the lists of nodes, gangs and workloads: sources and columns.

To add a list: a view (`views`), a `ListDefinition` here, and a command like `commands.lists.nodes`.
"""

import time

from kilonova.cli.lists.resource_list import ListColumn, ListDefinition
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
        ListColumn("NAME", lambda view: view.name),
        ListColumn("STATUS", lambda view: view.status, is_state=True),
        ListColumn("RACK", lambda view: view.rack or "-"),
        ListColumn(
            "GPUS",
            lambda view: f"{format_number(view.gpus_allocated)}/{view.gpus}" if view.gpus else "-",
            sort_key=lambda view: view.gpus,
        ),
        ListColumn("PRODUCT", lambda view: view.product or "-"),
        ListColumn("PODS", lambda view: str(view.pods), sort_key=lambda view: view.pods),
        ListColumn(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        ListColumn("BLOCK", lambda view: view.block or "-", wide_only=True),
        ListColumn("ZONE", lambda view: view.zone or "-", wide_only=True),
        ListColumn(
            "CPU",
            lambda view: format_number(view.cpu),
            sort_key=lambda view: view.cpu,
            wide_only=True,
        ),
        ListColumn(
            "MEMORY",
            lambda view: format_gibibytes(view.memory),
            sort_key=lambda view: view.memory,
            wide_only=True,
        ),
        ListColumn("MACHINE", lambda view: view.machine or "-", wide_only=True),
        ListColumn(
            "PRICE",
            lambda view: "-" if view.price is None else f"${view.price:.2f}",
            sort_key=lambda view: view.price or 0.0,
            wide_only=True,
        ),
        ListColumn(
            "NODE-PRICE",
            lambda view: "-" if view.node_price is None else f"${view.node_price:.2f}",
            sort_key=lambda view: view.node_price or 0.0,
            wide_only=True,
        ),
        ListColumn("PROBLEM", lambda view: to_one_line(view.problem) or "-", wide_only=True),
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
        ListColumn("NAME", lambda view: view.name),
        ListColumn("PHASE", lambda view: view.phase, is_state=True),
        ListColumn("PODS", lambda view: str(view.pods), sort_key=lambda view: view.pods),
        ListColumn(
            "READY", lambda view: f"{view.ready}/{view.pods}", sort_key=lambda view: view.ready
        ),
        ListColumn("GPUS", lambda view: format_number(view.gpus), sort_key=lambda view: view.gpus),
        ListColumn("QUEUE", lambda view: view.queue),
        ListColumn(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        ListColumn("NODES", lambda view: ",".join(view.nodes) or "-", wide_only=True),
        ListColumn("TOPOLOGY", lambda view: to_one_line(view.topology) or "-", wide_only=True),
        ListColumn(
            "SCORE",
            lambda view: "-" if view.score is None else f"{view.score:.2f}",
            sort_key=lambda view: view.score or 0.0,
            wide_only=True,
        ),
        ListColumn(
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
        ListColumn("KIND", lambda view: view.kind),
        ListColumn("NAME", lambda view: view.name),
        ListColumn("STATUS", lambda view: view.status, is_state=True),
        ListColumn(
            "READY", lambda view: f"{view.ready}/{view.pods}", sort_key=lambda view: view.ready
        ),
        ListColumn("GPUS", lambda view: format_number(view.gpus), sort_key=lambda view: view.gpus),
        ListColumn("QUEUE", lambda view: view.queue),
        ListColumn(
            "AGE",
            lambda view: format_age(view.created, time.time()),
            sort_key=lambda view: -(view.created or 0.0),
        ),
        ListColumn("NODES", lambda view: ",".join(view.nodes) or "-", wide_only=True),
        ListColumn(
            "RESTARTS",
            lambda view: str(view.restarts),
            sort_key=lambda view: view.restarts,
            wide_only=True,
        ),
        ListColumn(
            "PRICE",
            _format_workload_price,
            sort_key=lambda view: view.price or 0.0,
            wide_only=True,
        ),
        ListColumn(
            "WHY",
            lambda view: shorten(view.why),
            wide_cell=lambda view: to_one_line(view.why) or "-",
        ),
    ),
)
