"""Frames of `kilonova top` and its keys, without a terminal."""

import re

import pytest
from msgspec.structs import replace

from kilonova.cli.lists.views import Tables
from kilonova.cli.top.frame import (
    ViewModel,
    render_all_pages,
    render_frame,
    render_header,
    render_page,
)
from kilonova.cli.top.view_state import ORDERS, PageName, ViewState, apply_key, parse_keys
from kilonova.component.command.output.terminal_text import crop, display_width, wrap
from kilonova.console.rows.model import GangRow, NodeRow, PodRow
from kilonova.scheduler.console import QueueRow

NODES = [
    NodeRow(
        id=name,
        ready=name != "b1",
        cpu=8,
        memory=1 << 30,
        gpus=4,
        rack=f"rack-{name[0]}",
        price=2,
        node_price=8,
    )
    for name in ("a0", "a1", "b1")
]
PODS = [
    PodRow(
        id="x/train",
        phase="Running",
        state="Running",
        workload="Job/x/train",
        node="a0",
        ready=True,
        gpus=2,
        devices=((1, 1.0), (3, 1.0)),
    ),
    PodRow(
        id="x/part",
        phase="Running",
        state="Running",
        workload="Pod/x/part",
        node="a1",
        ready=True,
        devices=((0, 0.5),),
    ),
    PodRow(
        id="y/foreign",
        phase="Running",
        state="Running",
        workload="Deployment/y/foreign",
        node="b1",
        gpus=3,
    ),
    PodRow(
        id="y/late",
        phase="Pending",
        state="Pending",
        workload="Pod/y/late",
        gpus=4,
        message="no feasible node",
    ),
]
QUEUES = [
    QueueRow(
        id="team",
        weight=1,
        ready=True,
        observed=True,
        limit={"nvidia.com/gpu": 4},
        used={"nvidia.com/gpu": 2},
    ),
    QueueRow(
        id="part", weight=1, ready=False, observed=True, parent="team", message="has no parent"
    ),
]


def build_model(**other: object) -> ViewModel:
    tables = Tables(nodes=NODES, pods=PODS, queues=QUEUES)
    defaults = {"tables": tables, "cluster": "lab", "now": 0.0, "coloured": False}
    return ViewModel(**defaults | other)  # type: ignore[arg-type]


def render_lines(view_state: ViewState, **other: object) -> list[str]:
    return render_page(build_model(**other), view_state)


def test_header_counts_nodes_gpus_waiting_workloads_and_cost():
    assert render_header(build_model()) == (
        "lab  2/3 nodes ready  GPUs 5.5/12 used  1 pending  $11.00 of $24.00 per hour"
    )


def test_header_counts_gpus_without_a_price():
    free = NodeRow(id="odd", ready=True, cpu=1, memory=1, gpus=72)
    header = render_header(build_model(tables=Tables(nodes=[*NODES, free], pods=PODS)))
    assert header.endswith("$11.00 of $24.00 per hour + 72 GPUs without a price")


def test_header_adds_nodes_without_gpus_and_counts_those_without_a_price():
    head = NodeRow(id="head", ready=True, cpu=1, memory=1, node_price=1.5)
    others = [NodeRow(id=f"cpu-{n}", ready=True, cpu=1, memory=1) for n in range(2)]
    header = render_header(build_model(tables=Tables(nodes=[*NODES, head, *others], pods=PODS)))
    assert header.endswith("$11.00 of $25.50 per hour + 2 nodes without a price")


def test_waiting_gang_is_counted_once():
    gang = GangRow(id="y/g", phase="Pending", groups=())
    member = PodRow(id="y/m", phase="Pending", state="Pending", workload="Pod/y/m", gang="y/g")
    tables = Tables(gangs=[gang], pods=[member])
    assert "1 pending" in render_header(build_model(tables=tables))


def test_each_gpu_is_a_cell_in_the_colour_of_its_owner():
    drawn = "\n".join(render_lines(ViewState()))
    assert "a0  Ready     ·B·B" in drawn, drawn
    assert "a1  Ready     c···" in drawn
    assert "b1  NotReady  AAA·" in drawn
    assert "B=train" in drawn


def test_lost_gpu_is_marked():
    node = NodeRow(id="n", ready=True, cpu=1, memory=1, gpus=2, lost=(1,))
    assert "·×" in render_lines(ViewState(), tables=Tables(nodes=[node]))[1]


def test_node_with_very_many_gpus_fits_its_line():
    vast = NodeRow(id="vast", ready=True, cpu=1, memory=1, gpus=10**15)
    tables = Tables(nodes=[*NODES, vast], pods=[_large_pod("a0"), _large_pod("vast")])
    shown = {line.split()[0]: line for line in render_lines(ViewState(), tables=tables)}
    assert "Ready     " + "A" * 4 + " " * 60 + "  " in shown["a0"]
    assert "Ready     " + "B" * 63 + "…  " in shown["vast"]


def _large_pod(node: str) -> PodRow:
    return PodRow(
        id=f"y/{node}",
        phase="Running",
        state="Running",
        workload=f"Pod/y/{node}",
        node=node,
        gpus=2**63,
    )


def test_owners_have_distinct_and_stable_colours():
    coloured = render_page(build_model(coloured=True), ViewState())
    train, part = (next(line for line in coloured if name in line) for name in ("train", "part"))
    colours = [line.partition("\x1b[38;5;")[2].partition("m")[0] for line in (train, part)]
    assert colours[0] != colours[1]
    alone = Tables(nodes=NODES, pods=PODS[:1])
    again = render_page(build_model(coloured=True, tables=alone), ViewState())
    assert f"\x1b[38;5;{colours[0]}m" in "\n".join(again)


def test_user_text_stays_in_its_line_without_control_characters():
    text = "out of disk\nsee \x1b]0;mine\x07 the log\x9b2J"
    node = NodeRow(id="n", ready=False, cpu=1, memory=1, problem=text)
    late = PodRow(id="x/p", phase="Pending", state="Pending", workload="Pod/x/p", message=text)
    queue = QueueRow(id="q", weight=1, ready=False, observed=True, message=text)
    drawn = render_all_pages(
        build_model(tables=Tables(nodes=[node], pods=[late], queues=[queue]), error=text)
    )
    assert sum("out of disk see ]0;mine the log2J" in line for line in drawn) == 4, drawn
    assert all(line.isprintable() for line in drawn)


def test_nodes_are_grouped_by_rack():
    heads = [line for line in render_lines(ViewState()) if not line.startswith("  ")]
    assert heads == ["rack-a  2.5/8 GPUs", "rack-b  3/4 GPUs"]


def test_waiting_workloads_come_first_with_their_reason():
    first = render_lines(ViewState(page="workloads"))[0]
    assert first.split()[:2] == ["Pending", "y/late"]
    assert first.endswith("no feasible node")


def test_namespace_filters_workloads():
    shown = render_lines(ViewState(page="workloads"), namespace="x")
    assert [line.split()[1] for line in shown] == ["x/part", "x/train"]


def test_queues_are_a_tree_with_bars():
    team, part = render_lines(ViewState(page="queues"))
    assert "team" in team
    assert "█" * 10 + "·" * 10 in team
    assert part.startswith("    part")
    assert part.endswith("has no parent")


def test_queues_show_the_figures_of_their_status():
    row = QueueRow(
        id="default",
        weight=1,
        ready=True,
        observed=True,
        used={"nvidia.com/gpu": 5.5},
        pending_gangs=7,
    )
    (line,) = render_lines(ViewState(page="queues"), tables=Tables(nodes=NODES, queues=[row]))
    unlimited = ["-", "deserved", "-", "limit"]
    bar = "█" * 9 + "·" * 11
    assert line.split() == ["default", bar, "5.5", "used", *unlimited, "7", "pending"]


def test_cluster_without_queues_names_the_scheduler_as_their_creator():
    shown = render_lines(ViewState(page="queues"), tables=Tables(nodes=NODES, pods=PODS))
    assert shown == ["  There are no queues yet: a running scheduler creates the default queue."]


def test_unobserved_queue_is_new_and_not_an_error():
    unobserved = QueueRow(id="q", weight=1, ready=False, observed=False, message="not observed yet")
    (line,) = render_lines(
        ViewState(page="queues"), tables=Tables(queues=[unobserved]), coloured=True
    )
    assert line.endswith("\x1b[2mnew: not observed yet\x1b[0m"), line


@pytest.mark.parametrize(
    ("page", "filter", "found"),
    [("nodes", "A1", "a1"), ("nodes", "train", "a0"), ("workloads", "deploy", "foreign")],
)
def test_filter_matches_all_columns(page: PageName, filter: str, found: str):
    shown = [
        line for line in render_lines(ViewState(page=page, filter=filter)) if line.startswith("  ")
    ]
    assert len(shown) == 1
    assert found in shown[0]


def test_filter_without_match_shows_a_message():
    assert render_lines(ViewState(filter="zzz")) == ["  No nodes match 'zzz'."]


@pytest.mark.parametrize(("width", "height"), [(120, 40), (40, 8), (20, 5)])
def test_frame_fits_its_terminal(width: int, height: int):
    drawn = render_frame(build_model(coloured=True), ViewState(), width, height)
    assert len(drawn.lines) == height
    assert max(map(display_width, drawn.lines)) <= width


def test_long_page_scrolls_and_shows_its_position():
    drawn = render_frame(build_model(), ViewState(offset=99), 100, 6)
    assert drawn.max_offset == 2
    assert drawn.lines[-1].startswith("lines 3–5 of 5")


def test_once_prints_all_pages():
    drawn = "\n".join(render_all_pages(build_model()))
    assert all(page in drawn for page in ("NODES", "WORKLOADS", "QUEUES"))


def test_long_reason_wraps_on_a_key():
    reason = "group late needs 9 pods, but only 2 fit: 7 more GPUs are needed"
    pods = [*PODS[:-1], replace(PODS[-1], message=reason)]
    wrapped = apply_key(ViewState(page="workloads"), "w", page_lines=10, max_offset=0)
    assert wrapped is not None
    for coloured in (False, True):
        model = build_model(coloured=coloured, tables=Tables(nodes=NODES, pods=pods))
        assert reason not in _words(render_frame(model, ViewState(page="workloads"), 60, 40).lines)
        drawn = render_frame(model, wrapped, 60, 40)
        assert reason in _words(drawn.lines)
        assert max(map(display_width, drawn.lines)) <= 60
        assert any(reason in line for line in render_all_pages(model))
    assert apply_key(wrapped, "w", page_lines=10, max_offset=0) == ViewState(page="workloads")


def _words(lines: list[str]) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines)).split())


@pytest.mark.parametrize("width", [7, 16, 200])
@pytest.mark.parametrize(
    "line", ["\x1b[31mabc def ghi\x1b[0m end", "x" * 50, "没有空位 没有空位", ""]
)
def test_wrapped_lines_hold_all_letters_and_fit(line: str, width: int):
    found = wrap(line, width)
    assert _words(found).replace(" ", "") == _words([line]).replace(" ", "")
    assert max(map(display_width, found)) <= width
    assert all(each.count("\x1b[31m") == each.count("\x1b[0m") for each in found)


def test_cropping_keeps_escape_codes_intact():
    line = "\x1b[31mabcdef\x1b[0m"
    assert display_width(crop(line, 4)) == 4
    assert crop(line, 4).startswith("\x1b[31mabc")
    assert crop(line, 6) == line


@pytest.mark.parametrize(
    ("line", "width", "shown"),
    [
        ("没有空位", 8, "没有空位"),
        ("没有空位", 7, "没有空…"),
        ("没有空位", 6, "没有…"),
        ("a\x1b[31m没有\x1b[0m空位", 6, "a\x1b[31m没有\x1b[0m…\x1b[0m"),
        ("re\u0301seau", 6, "re\u0301seau"),
        ("re\u0301seau", 4, "re\u0301s…"),
    ],
)
def test_cropping_respects_the_display_width_of_characters(line: str, width: int, shown: str):
    assert crop(line, width) == shown
    assert display_width(crop(line, width)) <= width


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOC", ["right"]),
        ("\x1b", ["escape"]),
        ("\x1b[1;5Cx", ["x"]),
        ("\t/a\r", ["tab", "/", "a", "enter"]),
        ("\x1b[200", []),
    ],
)
def test_keys_are_parsed_as_terminals_send_them(typed: str, keys: list[str]):
    assert list(parse_keys(typed)) == keys


def press_keys(*keys: str, view_state: ViewState | None = None) -> ViewState | None:
    state: ViewState | None = view_state or ViewState()
    for key in keys:
        assert state is not None
        state = apply_key(state, key, page_lines=10, max_offset=25)
    return state


def test_keys_cycle_through_pages():
    assert press_keys("tab") == ViewState(page="workloads")
    assert press_keys("left") == ViewState(page="queues")
    assert press_keys("tab", "tab", "tab") == ViewState()
    assert press_keys("3") == ViewState(page="queues")


def test_typing_after_slash_filters_even_for_shortcut_keys():
    assert press_keys("/", "q", "s", "erase", "enter") == ViewState(filter="q")
    assert press_keys("/", "x", "escape") == ViewState()
    assert press_keys("/", "x", "enter", "escape") == ViewState()


def test_scrolling_ends_at_both_ends():
    assert press_keys("up") == ViewState()
    assert press_keys("pagedown", "pagedown", "pagedown") == ViewState(offset=25)
    assert press_keys("end", "home") == ViewState()
    assert press_keys("end", "k") == ViewState(offset=24)


def test_sort_order_cycles_per_page():
    state = press_keys("s", "tab", "s", "s", "tab", "tab")
    assert state is not None
    assert (state.page, state.order) == ("nodes", "name")
    workloads = press_keys("tab", view_state=state)
    assert workloads is not None
    assert workloads.order == "age"


def test_q_quits():
    assert press_keys("q") is None


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("nodes", ("a0", "a1", "b1")),
        ("workloads", ("train", "part", "foreign", "late")),
        ("queues", ("team", "part")),
    ],
)
def test_every_sort_order_shows_all_rows(page: PageName, names: tuple[str, ...]):
    state: ViewState | None = ViewState(page=page)
    for _ in ORDERS[page]:
        assert state is not None
        drawn = "\n".join(render_lines(state))
        assert all(name in drawn for name in names)
        state = press_keys("s", view_state=state)
    assert state == ViewState(page=page)
