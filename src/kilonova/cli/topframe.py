"""One picture of `kilonova top`: the lines that fill a terminal. Pure."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kilonova.cli.colours import of_state, painted
from kilonova.cli.printing import age, amount
from kilonova.cli.screen import cropped, one_line, width_of, wrapped
from kilonova.cli.topcells import MOST_CELLS, Owners, cells_of
from kilonova.cli.toplook import PAGES, Look
from kilonova.cli.usualqueue import queue_rows
from kilonova.cli.views import (
    NodeView,
    Tables,
    WorkloadView,
    natural,
    node_views,
    workload_views,
)
from kilonova.console.noderows import GPU
from kilonova.console.rows import PodRow, QueueRow
from kilonova.console.workloadrows import STATES

_KEYS = "q quit   tab page   / filter   s sort   w wrap   ↑↓ scroll"
_IN_NO_QUEUE = ("SchedulingGated", "Terminating")
_BAR = 20
_AROUND = 3
"""Lines that are no part of a page: head, tabs, keys."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to draw, and how."""

    tables: Tables
    cluster: str
    now: float
    coloured: bool
    served: frozenset[str]
    """The schedulers whose pods are in queues."""
    namespace: str | None = None
    """Whose workloads are shown; None is all."""
    trouble: str = ""
    """Why it may not be up to date."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Lines for a terminal, and how far its page can be scrolled."""

    lines: list[str]
    last: int
    page_lines: int


def frame(scene: Scene, look: Look, width: int, height: int) -> Frame:
    """The picture, as large as the terminal at most."""
    body = page_lines(scene, look)
    if look.wraps:
        body = [part for line in body for part in wrapped(line, width)]
    room = max(1, height - _AROUND)
    last = max(0, len(body) - room)
    offset = min(look.offset, last)
    seen = body[offset : offset + room]
    place = f"lines {offset + 1}–{offset + len(seen)} of {len(body)}   " if last else ""
    foot = f"/{look.filter}▏ enter keeps, esc clears" if look.typing else f"{place}{_KEYS}"
    lines = [head_line(scene), _tabs(scene, look), *seen]
    lines += [""] * (height - 1 - len(lines))
    lines.append(_dim(scene, foot))
    return Frame([cropped(line, width) for line in lines], last, room)


def whole(scene: Scene) -> list[str]:
    """All pages below each other, for `--once`."""
    lines = [head_line(scene)]
    for page in PAGES:
        body = page_lines(scene, Look(page=page))
        lines += ["", _bold(scene, page.upper()), *body]
    return lines


def head_line(scene: Scene) -> str:
    """The cluster in one line."""
    tables = scene.tables
    prices = {node.id: node.price or 0.0 for node in tables.nodes}
    ready = sum(node.ready for node in tables.nodes)
    held = sum(pod.held for pod in tables.pods)
    cost = sum(pod.held * prices.get(pod.node, 0.0) for pod in tables.pods)
    worth = sum(node.gpus * prices[node.id] for node in tables.nodes)
    waiting = sum(view.status == "Waiting" for view in workload_views(tables))
    unpriced = sum(node.gpus for node in tables.nodes if node.price is None)
    unknown = f" + {unpriced} GPU{'s' if unpriced > 1 else ''} without a price" if unpriced else ""
    nodes = f"{ready}/{len(tables.nodes)} nodes ready"
    parts = [
        _bold(scene, scene.cluster),
        nodes if ready == len(tables.nodes) else _paint(scene, nodes, "NotReady"),
        f"GPUs {amount(held)}/{sum(node.gpus for node in tables.nodes)} held",
        _paint(scene, f"{waiting} waiting", "Waiting") if waiting else "nobody waits",
        f"${cost:,.2f} of ${worth:,.2f} per hour{unknown}",
    ]
    if scene.trouble:
        trouble = f"not up to date: {one_line(scene.trouble)}"
        parts.append(_paint(scene, trouble, "NotReady"))
    return "  ".join(parts)


def _tabs(scene: Scene, look: Look) -> str:
    tabs = [
        _bold(scene, f"[{page}]") if page == look.page else _dim(scene, f" {page} ")
        for page in PAGES
    ]
    wanted = f"   filter: {look.filter}" if look.filter else ""
    return f"{' '.join(tabs)}   by {look.order}{wanted}"


def page_lines(scene: Scene, look: Look) -> list[str]:
    """All lines of a page, in order, those that the filter lets pass."""
    draw = {"nodes": _nodes, "workloads": _workloads, "queues": _queues}
    return draw[look.page](scene, look)


def _nodes(scene: Scene, look: Look) -> list[str]:
    standing: dict[str, list[PodRow]] = defaultdict(list)
    for pod in scene.tables.pods:
        if pod.held:
            standing[pod.node].append(pod)
    owners = _owners(scene)
    rows = {node.id: node for node in scene.tables.nodes}
    views = [view for view in node_views(scene.tables) if _passes(look, view, standing[view.name])]
    if not views:
        return [_none(look, "nodes")]
    name, status, cells = (
        max(len(view.name) for view in views),
        max(len(view.status) for view in views),
        min(MOST_CELLS, max(view.gpus for view in views)),
    )

    def line(view: NodeView) -> str:
        node, pods = rows[view.name], standing[view.name]
        mine = list(dict.fromkeys(pod.workload for pod in pods))
        figures = f"{amount(view.gpus_held)}/{view.gpus}" if view.gpus else ""
        drawn = cells_of(node, pods, owners)
        text = " ".join(map(owners.named, mine)) or one_line(node.problem)
        return (
            f"  {view.name:<{name}}  {_paint(scene, f'{view.status:<{status}}', view.status)}  "
            f"{drawn}{' ' * (cells - width_of(drawn))}  {figures:>8}  {text}"
        ).rstrip()

    if look.order == "place":
        return _by_rack(scene, views, line)
    # They come in the order of their names, which stays where the rest is equal.
    keys: dict[str, Callable[[NodeView], float]] = {
        "name": lambda view: 0.0,
        "held": lambda view: -view.gpus_held,
        "free": lambda view: view.gpus_held - view.gpus,
    }
    return [line(view) for view in sorted(views, key=keys[look.order])]


def _by_rack(scene: Scene, views: Sequence[NodeView], line: Callable[[NodeView], str]) -> list[str]:
    racks: dict[tuple[str, str, str], list[NodeView]] = defaultdict(list)
    for view in views:
        racks[view.zone, view.block, view.rack].append(view)
    lines: list[str] = []
    # Nodes that stand nowhere in particular come last.
    for place in sorted(racks, key=lambda one: (not any(one), *map(natural, one))):
        mine = racks[place]
        where = " / ".join(filter(None, place)) or "without a rack"
        held, total = sum(view.gpus_held for view in mine), sum(view.gpus for view in mine)
        figures = f"  {amount(held)}/{total} GPUs" if total else ""
        lines.append(f"{_bold(scene, where)}{figures}")
        lines += map(line, mine)
    return lines


def _owners(scene: Scene) -> Owners:
    return Owners.of((pod.workload for pod in scene.tables.pods if pod.held), scene.coloured)


def _passes(look: Look, view: NodeView, pods: Sequence[PodRow]) -> bool:
    known = (view.name, view.status, view.zone, view.block, view.rack, view.product)
    return _has(look, *known, *(pod.workload for pod in pods))


def _workloads(scene: Scene, look: Look) -> list[str]:
    views = [
        view
        for view in workload_views(scene.tables)
        if scene.namespace in (None, view.namespace)
        and _has(look, view.namespace, view.kind, view.name, view.status, view.queue, view.why)
    ]
    if not views:
        return [_none(look, "workloads")]
    keys: dict[str, Callable[[WorkloadView], tuple[float, str]]] = {
        "state": lambda view: (_badness(view.status), view.name),
        "gpus": lambda view: (-view.gpus, view.name),
        "age": lambda view: (-(view.created or 0.0), view.name),
        "name": lambda view: (0.0, f"{view.namespace}/{view.name}"),
    }
    owners = _owners(scene)
    name = max(len(view.namespace) + len(view.name) + 1 for view in views)
    kind = max(len(view.kind) for view in views)
    lines: list[str] = []
    for view in sorted(views, key=keys[look.order]):
        full = f"{view.namespace}/{view.name}"
        lines.append(
            f"  {_paint(scene, f'{view.status:<11}', view.status)}  "
            f"{owners.painted(f'{view.kind}/{full}', f'{full:<{name}}')}  {view.kind:<{kind}}  "
            f"{f'{view.ready}/{view.pods}':>7} ready  {amount(view.gpus):>4} GPUs  "
            f"{age(view.created, scene.now):>6}  {one_line(view.why)}".rstrip()
        )
    return lines


def _badness(status: str) -> float:
    return STATES.index(status) if status in STATES else len(STATES)


def _queues(scene: Scene, look: Look) -> list[str]:
    known = {row.id: row for row in queue_rows(_queued(scene))}
    rows = [row for row in known.values() if _has(look, row.id, row.parent, row.message)]
    if not rows:
        return [_none(look, "queues")]
    paths = {row.id: _path(row, known) for row in rows}
    gpus = sum(node.gpus for node in scene.tables.nodes)
    keys: dict[str, Callable[[QueueRow], tuple[float, tuple[str, ...]]]] = {
        "tree": lambda row: (0.0, paths[row.id]),
        "used": lambda row: (-row.used.get(GPU, 0), paths[row.id]),
        "waiting": lambda row: (-row.waiting, paths[row.id]),
    }
    indent = {row.id: "  " * (len(paths[row.id]) - 1) for row in rows}
    if look.order != "tree":
        indent = dict.fromkeys(indent, "")
    name = max(len(indent[row.id]) + len(row.id) for row in rows)
    lines: list[str] = []
    for row in sorted(rows, key=keys[look.order]):
        used = row.used.get(GPU, 0)
        top = row.limit.get(GPU) or row.deserved.get(GPU) or row.fair_share.get(GPU) or gpus
        filled = min(_BAR, round(_BAR * used / top)) if top else 0
        bar = _paint(scene, "█" * filled, "Running") + "·" * (_BAR - filled)
        lines.append(
            f"  {indent[row.id] + row.id:<{name}}  {bar}  {amount(used):>5} used  "
            f"{_or_dash(row, 'deserved'):>5} deserved  {_or_dash(row, 'limit'):>5} limit  "
            f"{row.waiting:>4} waiting  {_state(scene, row)}".rstrip()
        )
    return lines


def _state(scene: Scene, row: QueueRow) -> str:
    """What is wrong with a queue; of one at which no scheduler has looked, nothing is."""
    if row.ready:
        return ""
    message = one_line(row.message)
    return _dim(scene, f"new: {message}") if row.new else _paint(scene, message, "NotReady")


def _queued(scene: Scene) -> Tables:
    """Without what is in no queue: pods of other schedulers, that must not be placed yet or are
    about to go, and gangs that have no others."""
    tables = scene.tables
    pods = [
        pod
        for pod in tables.pods
        if pod.scheduler in scene.served and pod.state not in _IN_NO_QUEUE
    ]
    ids, named = {pod.id for pod in pods}, {pod.gang for pod in pods}
    gangs = [
        gang
        for gang in tables.gangs
        if gang.id in named or any(pod in ids for group in gang.groups for pod in group.pods)
    ]
    return replace(tables, pods=pods, gangs=gangs)


def _path(row: QueueRow, rows: dict[str, QueueRow]) -> tuple[str, ...]:
    """Its name after those of the queues that it is part of; circles end where they began."""
    path = [row.id]
    while (parent := rows.get(row.parent)) is not None and parent.id not in path:
        path.append(parent.id)
        row = parent
    return tuple(reversed(path))


def _or_dash(row: QueueRow, amounts: str) -> str:
    found = (row.deserved if amounts == "deserved" else row.limit).get(GPU)
    return "-" if found is None else amount(found)


def _has(look: Look, *texts: str) -> bool:
    wanted = look.filter.lower()
    return not wanted or any(wanted in text.lower() for text in texts)


def _none(look: Look, what: str) -> str:
    return f"  No {what} match {look.filter!r}." if look.filter else f"  There are no {what}."


def _paint(scene: Scene, text: str, state: str) -> str:
    return painted(text, of_state(state)) if scene.coloured else text


def _bold(scene: Scene, text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if scene.coloured else text


def _dim(scene: Scene, text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if scene.coloured else text
