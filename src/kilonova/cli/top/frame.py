"""Renders frames of `kilonova top`: the lines that fill a terminal. Pure."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.catalog.resource_names import GPU
from kilonova.cli.lists.views import (
    NodeView,
    Tables,
    WorkloadView,
    natural_sort_key,
    node_views,
    workload_views,
)
from kilonova.cli.top.gpu_cells import MAX_CELLS, OwnerColours, draw_gpu_cells
from kilonova.cli.top.view_state import PAGES, ViewState
from kilonova.component.command.output.colours import colour_of_state, paint
from kilonova.component.command.output.list_printer import format_age, format_number
from kilonova.component.command.output.terminal_text import crop, display_width, to_one_line, wrap
from kilonova.console.rows.model import PodRow
from kilonova.console.rows.workloads import STATES
from kilonova.scheduler.console import QueueRow

_KEYS = "q quit   tab page   / filter   s sort   w wrap   ↑↓ scroll"
_BAR_WIDTH = 20
_FIXED_LINES = 3
"""Lines around a page: header, tabs, keys."""


@dataclass(frozen=True, slots=True)
class ViewModel:
    """The data of a frame."""

    tables: Tables
    cluster: str
    now: float
    coloured: bool
    namespace: str | None = None
    """Only workloads of this namespace are shown; None is all."""
    error: str = ""
    """Why the data may be stale."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Lines for a terminal, and how far the page can be scrolled."""

    lines: list[str]
    max_offset: int
    page_lines: int


def render_frame(model: ViewModel, view_state: ViewState, width: int, height: int) -> Frame:
    """A frame that fits the terminal."""
    body = render_page(model, view_state)
    if view_state.wraps:
        body = [part for line in body for part in wrap(line, width)]
    page_lines = max(1, height - _FIXED_LINES)
    max_offset = max(0, len(body) - page_lines)
    offset = min(view_state.offset, max_offset)
    visible = body[offset : offset + page_lines]
    position = f"lines {offset + 1}–{offset + len(visible)} of {len(body)}   " if max_offset else ""
    footer = (
        f"/{view_state.filter}▏ enter applies, esc clears"
        if view_state.typing
        else f"{position}{_KEYS}"
    )
    lines = [render_header(model), _render_tabs(model, view_state), *visible]
    lines += [""] * (height - 1 - len(lines))
    lines.append(_dim(model, footer))
    return Frame([crop(line, width) for line in lines], max_offset, page_lines)


def render_all_pages(model: ViewModel) -> list[str]:
    """All pages, one after the other, for `--once`."""
    lines = [render_header(model)]
    for page in PAGES:
        body = render_page(model, ViewState(page=page))
        lines += ["", _bold(model, page.upper()), *body]
    return lines


def render_header(model: ViewModel) -> str:
    """A summary of the cluster in one line."""
    tables = model.tables
    prices = {node.id: node.price or 0.0 for node in tables.nodes}
    ready = sum(node.ready for node in tables.nodes)
    used = sum(pod.allocated_gpus for pod in tables.pods)
    cost = sum(pod.allocated_gpus * prices.get(pod.node, 0.0) for pod in tables.pods)
    total_cost = sum(node.node_price or 0.0 for node in tables.nodes)
    pending = sum(view.status == "Pending" for view in workload_views(tables))
    without_price = [node for node in tables.nodes if node.node_price is None]
    unknown = "".join(
        f" + {count} {noun}{'s' if count > 1 else ''} without a price"
        for count, noun in (
            (sum(node.gpus for node in without_price), "GPU"),
            (sum(not node.gpus for node in without_price), "node"),
        )
        if count
    )
    nodes = f"{ready}/{len(tables.nodes)} nodes ready"
    parts = [
        _bold(model, model.cluster),
        nodes if ready == len(tables.nodes) else _paint_state(model, nodes, "NotReady"),
        f"GPUs {format_number(used)}/{sum(node.gpus for node in tables.nodes)} used",
        _paint_state(model, f"{pending} pending", "Pending") if pending else "none pending",
        f"${cost:,.2f} of ${total_cost:,.2f} per hour{unknown}",
    ]
    if model.error:
        message = f"not up to date: {to_one_line(model.error)}"
        parts.append(_paint_state(model, message, "NotReady"))
    return "  ".join(parts)


def _render_tabs(model: ViewModel, view_state: ViewState) -> str:
    tabs = [
        _bold(model, f"[{page}]") if page == view_state.page else _dim(model, f" {page} ")
        for page in PAGES
    ]
    filter_text = f"   filter: {view_state.filter}" if view_state.filter else ""
    return f"{' '.join(tabs)}   by {view_state.order}{filter_text}"


def render_page(model: ViewModel, view_state: ViewState) -> list[str]:
    """All lines of a page that match the filter, in order."""
    render = {"nodes": _render_nodes, "workloads": _render_workloads, "queues": _render_queues}
    return render[view_state.page](model, view_state)


def _render_nodes(model: ViewModel, view_state: ViewState) -> list[str]:
    pods_by_node: dict[str, list[PodRow]] = defaultdict(list)
    for pod in model.tables.pods:
        if pod.allocated_gpus:
            pods_by_node[pod.node].append(pod)
    owners = _assign_owner_colours(model)
    rows = {node.id: node for node in model.tables.nodes}
    views = [
        view
        for view in node_views(model.tables)
        if _node_matches(view_state, view, pods_by_node[view.name])
    ]
    if not views:
        return [_empty_message(view_state, "nodes")]
    name_width = max(len(view.name) for view in views)
    status_width = max(len(view.status) for view in views)
    cells_width = min(MAX_CELLS, max(view.gpus for view in views))

    def render_node(view: NodeView) -> str:
        node, pods = rows[view.name], pods_by_node[view.name]
        workloads = list(dict.fromkeys(pod.workload for pod in pods))
        usage = f"{format_number(view.gpus_allocated)}/{view.gpus}" if view.gpus else ""
        cells = draw_gpu_cells(node, pods, owners)
        padding = " " * (cells_width - display_width(cells))
        status = _paint_state(model, f"{view.status:<{status_width}}", view.status)
        text = " ".join(map(owners.format_legend, workloads)) or to_one_line(node.problem)
        return (
            f"  {view.name:<{name_width}}  {status}  {cells}{padding}  {usage:>8}  {text}"
        ).rstrip()

    if view_state.order == "topology":
        return _render_racks(model, views, render_node)
    # The views are ordered by name, and sorting is stable.
    keys: dict[str, Callable[[NodeView], float]] = {
        "name": lambda view: 0.0,
        "used": lambda view: -view.gpus_allocated,
        "free": lambda view: view.gpus_allocated - view.gpus,
    }
    return [render_node(view) for view in sorted(views, key=keys[view_state.order])]


def _render_racks(
    model: ViewModel, views: Sequence[NodeView], render_node: Callable[[NodeView], str]
) -> list[str]:
    racks: dict[tuple[str, str, str], list[NodeView]] = defaultdict(list)
    for view in views:
        racks[view.zone, view.block, view.rack].append(view)
    lines: list[str] = []
    # Nodes without topology labels come last.
    for domain in sorted(racks, key=lambda each: (not any(each), *map(natural_sort_key, each))):
        nodes = racks[domain]
        title = " / ".join(filter(None, domain)) or "without a rack"
        used, total = sum(view.gpus_allocated for view in nodes), sum(view.gpus for view in nodes)
        usage = f"  {format_number(used)}/{total} GPUs" if total else ""
        lines.append(f"{_bold(model, title)}{usage}")
        lines += map(render_node, nodes)
    return lines


def _assign_owner_colours(model: ViewModel) -> OwnerColours:
    return OwnerColours.assign(
        (pod.workload for pod in model.tables.pods if pod.allocated_gpus), model.coloured
    )


def _node_matches(view_state: ViewState, view: NodeView, pods: Sequence[PodRow]) -> bool:
    columns = (view.name, view.status, view.zone, view.block, view.rack, view.product)
    return _matches_filter(view_state, *columns, *(pod.workload for pod in pods))


def _render_workloads(model: ViewModel, view_state: ViewState) -> list[str]:
    views = [
        view
        for view in workload_views(model.tables)
        if model.namespace in (None, view.namespace)
        and _matches_filter(
            view_state, view.namespace, view.kind, view.name, view.status, view.queue, view.why
        )
    ]
    if not views:
        return [_empty_message(view_state, "workloads")]
    keys: dict[str, Callable[[WorkloadView], tuple[float, str]]] = {
        "state": lambda view: (_severity(view.status), view.name),
        "gpus": lambda view: (-view.gpus, view.name),
        "age": lambda view: (-(view.created or 0.0), view.name),
        "name": lambda view: (0.0, f"{view.namespace}/{view.name}"),
    }
    owners = _assign_owner_colours(model)
    name_width = max(len(view.namespace) + len(view.name) + 1 for view in views)
    kind_width = max(len(view.kind) for view in views)
    lines: list[str] = []
    for view in sorted(views, key=keys[view_state.order]):
        key = f"{view.namespace}/{view.name}"
        name = owners.paint(f"{view.kind}/{key}", f"{key:<{name_width}}")
        lines.append(
            f"  {_paint_state(model, f'{view.status:<11}', view.status)}  "
            f"{name}  {view.kind:<{kind_width}}  "
            f"{f'{view.ready}/{view.pods}':>7} ready  {format_number(view.gpus):>4} GPUs  "
            f"{format_age(view.created, model.now):>6}  {to_one_line(view.why)}".rstrip()
        )
    return lines


def _severity(status: str) -> float:
    return STATES.index(status) if status in STATES else len(STATES)


def _render_queues(model: ViewModel, view_state: ViewState) -> list[str]:
    by_name = {row.id: row for row in model.tables.queues}
    if not by_name:
        return ["  There are no queues yet: a running scheduler creates the default queue."]
    rows = [
        row
        for row in by_name.values()
        if _matches_filter(view_state, row.id, row.parent, row.message)
    ]
    if not rows:
        return [_empty_message(view_state, "queues")]
    paths = {row.id: _queue_path(row, by_name) for row in rows}
    gpus = sum(node.gpus for node in model.tables.nodes)
    keys: dict[str, Callable[[QueueRow], tuple[float, tuple[str, ...]]]] = {
        "tree": lambda row: (0.0, paths[row.id]),
        "used": lambda row: (-row.used.get(GPU, 0), paths[row.id]),
        "pending": lambda row: (-row.pending_gangs, paths[row.id]),
    }
    indent = {row.id: "  " * (len(paths[row.id]) - 1) for row in rows}
    if view_state.order != "tree":
        indent = dict.fromkeys(indent, "")
    name_width = max(len(indent[row.id]) + len(row.id) for row in rows)
    lines: list[str] = []
    for row in sorted(rows, key=keys[view_state.order]):
        used = row.used.get(GPU, 0)
        full = row.limit.get(GPU) or row.deserved.get(GPU) or row.fair_share.get(GPU) or gpus
        filled = min(_BAR_WIDTH, round(_BAR_WIDTH * used / full)) if full else 0
        bar = _paint_state(model, "█" * filled, "Running") + "·" * (_BAR_WIDTH - filled)
        lines.append(
            f"  {indent[row.id] + row.id:<{name_width}}  {bar}  {format_number(used):>5} used  "
            f"{_format_amount(row, 'deserved'):>5} deserved  "
            f"{_format_amount(row, 'limit'):>5} limit  "
            f"{row.pending_gangs:>4} pending  {_format_queue_problem(model, row)}".rstrip()
        )
    return lines


def _format_queue_problem(model: ViewModel, row: QueueRow) -> str:
    """Why a queue is not ready; a queue that no scheduler has observed yet is only new."""
    if row.ready:
        return ""
    message = to_one_line(row.message)
    if row.observed:
        return _paint_state(model, message, "NotReady")
    return _dim(model, f"new: {message}")


def _queue_path(row: QueueRow, rows: dict[str, QueueRow]) -> tuple[str, ...]:
    """The names of the queue's ancestors and its own; a cycle of parents is cut."""
    path = [row.id]
    while (parent := rows.get(row.parent)) is not None and parent.id not in path:
        path.append(parent.id)
        row = parent
    return tuple(reversed(path))


def _format_amount(row: QueueRow, amounts: str) -> str:
    amount = (row.deserved if amounts == "deserved" else row.limit).get(GPU)
    return "-" if amount is None else format_number(amount)


def _matches_filter(view_state: ViewState, *texts: str) -> bool:
    pattern = view_state.filter.lower()
    return not pattern or any(pattern in text.lower() for text in texts)


def _empty_message(view_state: ViewState, what: str) -> str:
    return (
        f"  No {what} match {view_state.filter!r}."
        if view_state.filter
        else f"  There are no {what}."
    )


def _paint_state(model: ViewModel, text: str, state: str) -> str:
    return paint(text, colour_of_state(state)) if model.coloured else text


def _bold(model: ViewModel, text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if model.coloured else text


def _dim(model: ViewModel, text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if model.coloured else text
