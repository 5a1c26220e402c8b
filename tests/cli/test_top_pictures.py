"""What `kilonova top` draws of rows, and what keys do, without a terminal."""

import re

import pytest
from msgspec.structs import replace

from kilonova.cli.screen import cropped, width_of, wrapped
from kilonova.cli.served import SERVED, SERVED_IN_UP
from kilonova.cli.topframe import Scene, frame, head_line, page_lines, whole
from kilonova.cli.toplook import ORDERS, Look, Page, keys_in, pressed
from kilonova.cli.views import Tables
from kilonova.console.rows import GangGroup, GangRow, NodeRow, PodRow, QueueRow

NODES = [
    NodeRow(
        id=name, ready=name != "b1", cpu=8, ram=1 << 30, gpus=4, rack=f"rack-{name[0]}", price=2
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
        message="no node has room",
    ),
]
QUEUES = [
    QueueRow(
        id="team", weight=1, ready=True, limit={"nvidia.com/gpu": 4}, used={"nvidia.com/gpu": 2}
    ),
    QueueRow(id="part", weight=1, ready=False, parent="team", message="has no parent"),
]


def scene(**other: object) -> Scene:
    tables = Tables(nodes=NODES, pods=PODS, queues=QUEUES)
    usual = {"tables": tables, "cluster": "lab", "now": 0.0, "coloured": False}
    return Scene(**usual | {"served": SERVED_IN_UP} | other)  # type: ignore[arg-type]


def lines(look: Look, **other: object) -> list[str]:
    return page_lines(scene(**other), look)


def test_the_head_counts_nodes_gpus_who_waits_and_what_it_costs():
    assert head_line(scene()) == (
        "lab  2/3 nodes ready  GPUs 5.5/12 held  1 waiting  $11.00 of $24.00 per hour"
    )


def test_the_head_counts_gpus_without_a_price_beside_what_the_others_cost():
    free = NodeRow(id="odd", ready=True, cpu=1, ram=1, gpus=72)
    told = head_line(scene(tables=Tables(nodes=[*NODES, free], pods=PODS)))
    assert told.endswith("$11.00 of $24.00 per hour + 72 GPUs without a price")


def test_a_gang_that_waits_is_counted_once():
    gang = GangRow(id="y/g", phase="Pending", groups=())
    member = PodRow(id="y/m", phase="Pending", state="Pending", workload="Pod/y/m", gang="y/g")
    tables = Tables(gangs=[gang], pods=[member])
    assert "1 waiting" in head_line(scene(tables=tables))


def test_each_gpu_is_a_cell_of_whoever_holds_it():
    drawn = "\n".join(lines(Look()))
    assert "a0  Ready     ·B·B" in drawn, drawn
    assert "a1  Ready     c···" in drawn
    assert "b1  NotReady  AAA·" in drawn
    assert "B=train" in drawn


def test_a_lost_gpu_is_marked():
    node = NodeRow(id="n", ready=True, cpu=1, ram=1, gpus=2, lost=(1,))
    assert "·×" in lines(Look(), tables=Tables(nodes=[node]))[1]


def test_whoever_says_that_there_are_any_number_of_gpus_gets_a_line_as_others_do():
    vast = NodeRow(id="vast", ready=True, cpu=1, ram=1, gpus=10**15)
    tables = Tables(nodes=[*NODES, vast], pods=[_greedy("a0"), _greedy("vast")])
    shown = {line.split()[0]: line for line in lines(Look(), tables=tables)}
    assert "Ready     " + "A" * 4 + " " * 60 + "  " in shown["a0"]
    assert "Ready     " + "B" * 63 + "…  " in shown["vast"]


def _greedy(node: str) -> PodRow:
    return PodRow(
        id=f"y/{node}",
        phase="Running",
        state="Running",
        workload=f"Pod/y/{node}",
        node=node,
        gpus=2**63,
    )


def test_owners_have_colours_that_differ_and_stay():
    coloured = page_lines(scene(coloured=True), Look())
    train, part = (next(line for line in coloured if name in line) for name in ("train", "part"))
    colours = [line.partition("\x1b[38;5;")[2].partition("m")[0] for line in (train, part)]
    assert colours[0] != colours[1]
    alone = Tables(nodes=NODES, pods=PODS[:1])
    again = page_lines(scene(coloured=True, tables=alone), Look())
    assert f"\x1b[38;5;{colours[0]}m" in "\n".join(again)


def test_what_others_wrote_stays_in_its_line_and_commands_no_terminal():
    said = "out of disk\nsee \x1b]0;mine\x07 the log\x9b2J"
    node = NodeRow(id="n", ready=False, cpu=1, ram=1, problem=said)
    late = PodRow(id="x/p", phase="Pending", state="Pending", workload="Pod/x/p", message=said)
    queue = QueueRow(id="q", weight=1, ready=False, message=said)
    drawn = whole(scene(tables=Tables(nodes=[node], pods=[late], queues=[queue]), trouble=said))
    assert sum("out of disk see ]0;mine the log2J" in line for line in drawn) == 4, drawn
    assert all(line.isprintable() for line in drawn)


def test_nodes_stand_in_their_racks():
    heads = [line for line in lines(Look()) if not line.startswith("  ")]
    assert heads == ["rack-a  2.5/8 GPUs", "rack-b  3/4 GPUs"]


def test_whoever_waits_comes_first_and_says_why():
    first = lines(Look(page="workloads"))[0]
    assert first.split()[:2] == ["Waiting", "y/late"]
    assert first.endswith("no node has room")


def test_only_workloads_of_a_namespace_that_is_named():
    shown = lines(Look(page="workloads"), namespace="x")
    assert [line.split()[1] for line in shown] == ["x/part", "x/train"]


def test_queues_are_a_tree_with_bars():
    _, team, part = lines(Look(page="queues"))
    assert "team" in team
    assert "█" * 10 + "·" * 10 in team
    assert part.startswith("    part")
    assert part.endswith("has no parent")


def test_the_usual_queue_is_there_even_if_nobody_made_it():
    usual = lines(Look(page="queues"))[0].split()
    assert usual == ["default", "█" * 9 + "·" * 11, "5.5", "used", *_unlimited(waiting=1)]
    gangs = [
        GangRow(id="y/g", phase="Pending", groups=()),
        GangRow(id="y/h", phase="Pending", groups=(), queue="team"),
    ]
    member = PodRow(id="y/m", phase="Pending", state="Pending", workload="Pod/y/m", gang="y/g")
    shown = lines(Look(page="queues"), tables=Tables(gangs=gangs, pods=[member]))
    assert shown[0].split() == ["default", "·" * 20, "0", "used", *_unlimited(waiting=1)]
    made = QueueRow(id="default", weight=1, ready=True, waiting=7)
    assert len(lines(Look(page="queues"), tables=Tables(queues=[made], pods=PODS))) == 1


def test_a_queue_at_which_no_scheduler_has_looked_is_new_and_no_trouble():
    unseen = QueueRow(id="q", weight=1, ready=False, new=True, message="nobody has looked")
    line = lines(Look(page="queues"), tables=Tables(queues=[unseen]), coloured=True)[1]
    assert line.endswith("\x1b[2mnew: nobody has looked\x1b[0m"), line


def test_queues_have_only_what_our_scheduler_places():
    ours = PodRow(
        id="y/ours",
        phase="Pending",
        state="Pending",
        workload="Pod/y/ours",
        scheduler="kilonova-scheduler",
    )
    gated = replace(ours, id="y/gated", state="SchedulingGated")
    group = GangGroup("g", 1, ("y/late",))
    tables = Tables(
        nodes=NODES,
        pods=[*PODS, ours, gated],
        gangs=[GangRow(id="y/others", phase="Pending", groups=(group,))],
    )
    shown = lines(Look(page="queues"), tables=tables, served=SERVED)
    assert shown[0].split() == ["default", "·" * 20, "0", "used", *_unlimited(waiting=1)]


def _unlimited(*, waiting: int) -> list[str]:
    return ["-", "deserved", "-", "limit", str(waiting), "waiting"]


@pytest.mark.parametrize(
    ("page", "filter", "found"),
    [("nodes", "A1", "a1"), ("nodes", "train", "a0"), ("workloads", "deploy", "foreign")],
)
def test_a_filter_looks_at_all_that_is_shown(page: Page, filter: str, found: str):
    shown = [line for line in lines(Look(page=page, filter=filter)) if line.startswith("  ")]
    assert len(shown) == 1
    assert found in shown[0]


def test_a_filter_that_finds_nothing_says_so():
    assert lines(Look(filter="zzz")) == ["  No nodes match 'zzz'."]


@pytest.mark.parametrize(("width", "height"), [(120, 40), (40, 8), (20, 5)])
def test_a_picture_fits_its_terminal(width: int, height: int):
    drawn = frame(scene(coloured=True), Look(), width, height)
    assert len(drawn.lines) == height
    assert max(map(width_of, drawn.lines)) <= width


def test_a_long_page_is_scrolled_and_says_where_it_is():
    drawn = frame(scene(), Look(offset=99), 100, 6)
    assert drawn.last == 2
    assert drawn.lines[-1].startswith("lines 3–5 of 5")


def test_one_picture_has_all_pages():
    drawn = "\n".join(whole(scene()))
    assert all(page in drawn for page in ("NODES", "WORKLOADS", "QUEUES"))


def test_a_reason_that_is_too_long_is_seen_whole_with_a_key():
    said = "group late needs room for 9 pods and there is room for 2: 7 more GPUs are needed"
    pods = [*PODS[:-1], replace(PODS[-1], message=said)]
    look = pressed(Look(page="workloads"), "w", page_lines=10, last=0)
    assert look is not None
    for coloured in (False, True):
        picture = scene(coloured=coloured, tables=Tables(nodes=NODES, pods=pods))
        assert said not in _words(frame(picture, Look(page="workloads"), 60, 40).lines)
        drawn = frame(picture, look, 60, 40)
        assert said in _words(drawn.lines)
        assert max(map(width_of, drawn.lines)) <= 60
        assert any(said in line for line in whole(picture))
    assert pressed(look, "w", page_lines=10, last=0) == Look(page="workloads")


def _words(lines: list[str]) -> str:
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines)).split())


@pytest.mark.parametrize("width", [7, 16, 200])
@pytest.mark.parametrize(
    "line", ["\x1b[31mabc def ghi\x1b[0m end", "x" * 50, "没有空位 没有空位", ""]
)
def test_wrapped_lines_hold_all_letters_and_fit(line: str, width: int):
    found = wrapped(line, width)
    assert _words(found).replace(" ", "") == _words([line]).replace(" ", "")
    assert max(map(width_of, found)) <= width
    assert all(each.count("\x1b[31m") == each.count("\x1b[0m") for each in found)


def test_cropping_leaves_codes_whole():
    line = "\x1b[31mabcdef\x1b[0m"
    assert width_of(cropped(line, 4)) == 4
    assert cropped(line, 4).startswith("\x1b[31mabc")
    assert cropped(line, 6) == line


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
def test_letters_take_the_columns_that_they_take_on_a_terminal(line: str, width: int, shown: str):
    assert cropped(line, width) == shown
    assert width_of(cropped(line, width)) <= width


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
def test_keys_as_terminals_send_them(typed: str, keys: list[str]):
    assert list(keys_in(typed)) == keys


def after(*keys: str, look: Look | None = None) -> Look | None:
    seen: Look | None = look or Look()
    for key in keys:
        assert seen is not None
        seen = pressed(seen, key, page_lines=10, last=25)
    return seen


def test_keys_turn_pages_round():
    assert after("tab") == Look(page="workloads")
    assert after("left") == Look(page="queues")
    assert after("tab", "tab", "tab") == Look()
    assert after("3") == Look(page="queues")


def test_what_is_typed_after_a_slash_filters_also_if_it_is_a_key():
    assert after("/", "q", "s", "erase", "enter") == Look(filter="q")
    assert after("/", "x", "escape") == Look()
    assert after("/", "x", "enter", "escape") == Look()


def test_scrolling_ends_at_both_ends():
    assert after("up") == Look()
    assert after("pagedown", "pagedown", "pagedown") == Look(offset=25)
    assert after("end", "home") == Look()
    assert after("end", "k") == Look(offset=24)


def test_sorting_goes_round_and_each_page_keeps_its_own():
    look = after("s", "tab", "s", "s", "tab", "tab")
    assert look is not None
    assert (look.page, look.order) == ("nodes", "name")
    workloads = after("tab", look=look)
    assert workloads is not None
    assert workloads.order == "age"


def test_q_leaves():
    assert after("q") is None


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("nodes", ("a0", "a1", "b1")),
        ("workloads", ("train", "part", "foreign", "late")),
        ("queues", ("team", "part", "default")),
    ],
)
def test_every_order_of_a_page_shows_the_same_things(page: Page, names: tuple[str, ...]):
    look: Look | None = Look(page=page)
    for _ in ORDERS[page]:
        assert look is not None
        drawn = "\n".join(lines(look))
        assert all(name in drawn for name in names)
        look = after("s", look=look)
    assert look == Look(page=page)
