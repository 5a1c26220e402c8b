"""The picture as it is printed."""

import re
from dataclasses import replace
from itertools import product
from textwrap import dedent

import pytest

from kilonova.component.command.output.terminal_text import display_width
from kilonova.instances.fit.picture import MAX_LINES, PictureOptions, draw_picture
from kilonova.instances.fit.topology_view import TopologyView, view_topology
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.library.copies import CopyPod
from tests.instances.clusters import NPU, node, pod, rack, snapshot_of

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def busy_view(next_copy: tuple[CopyPod, ...] = ()) -> TopologyView:
    """Two zones: an instance, a Job, half a GPU, a cordoned node and one that is not ready."""
    return view_topology(
        snapshot_of(
            *rack("zone-a/block-0/rack-0"),
            *rack("zone-a/block-0/rack-1"),
            node("rack-2-n0", "zone-a/block-0/rack-2", unhealthy=[1], states=["Cordoned"]),
            node("rack-10-n0", "zone-a/block-0/rack-10", states=["NotReady"]),
            *rack("zone-b/block-1/rack-20", 3),
            node("cpu-0", "zone-b/block-1", gpus=0),
            pods=[
                pod("llama-agent-0", "rack-0-n0", [0, 1, 2, 3], instance="llama"),
                pod("llama-agent-1", "rack-0-n1", [0, 1], instance="llama"),
                pod(
                    "chat-x",
                    "rack-1-n0",
                    [GpuShare(0, 500)],
                    labels={"kilonova.dev/workload": "PodCliqueSet_chat"},
                ),
                pod(
                    "train-0",
                    "rack-2-n0",
                    [0, 1],
                    labels={"batch.kubernetes.io/job-name": "train"},
                ),
            ],
        ),
        next_copy=next_copy,
    )


def draw(view: TopologyView, width: int = 80, detail: str = "", **options: bool) -> str:
    lines = draw_picture(view, PictureOptions(width, detail=detail, **options))
    return "\n".join(lines)


def text(expected: str) -> str:
    return dedent(expected).strip("\n")


def test_narrow_picture():
    assert draw(busy_view(), 72) == text("""
        nvidia.com/gpu: 9 nodes, 21 of 36 free, 6 not schedulable, 1 unhealthy;
                      1 other node

        zone-a  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
          block-0  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
            rack-0  2/8 free           rack-1  7/8 free
            AAAA rack-0-n0             c··· rack-1-n0
            AA·· rack-0-n1             ···· rack-1-n1
            rack-2  0/4 free           rack-10  0/4 free
            B×-- rack-2-n0 Cordoned    ---- rack-10-n0 NotReady
        zone-b  3 nodes, 12 of 12 free
          block-1  3 nodes, 12 of 12 free
            rack-20  12/12 free
            ···· rack-20-n[0-2]

            HELD BY         HELD   NODES   DOMAIN
        A   default/llama   6      2       zone-a/block-0/rack-0
        B   default/train   2      1       zone-a/block-0/rack-2
        C   default/chat    1      1       zone-a/block-0/rack-1

        · free   a partly used   - free, node not schedulable   × unhealthy
    """)


def test_wide_picture_in_ascii():
    assert draw(busy_view(), 132, ascii_only=True) == text("""
        nvidia.com/gpu: 9 nodes, 21 of 36 free, 6 not schedulable, 1 unhealthy; 1 other node

        zone-a  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
          block-0  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
            rack-0  2/8 free           rack-1  7/8 free           rack-2  0/4 free           rack-10  0/4 free
            AAAA rack-0-n0             c... rack-1-n0             B!-- rack-2-n0 Cordoned    ---- rack-10-n0 NotReady
            AA.. rack-0-n1             .... rack-1-n1
        zone-b  3 nodes, 12 of 12 free
          block-1  3 nodes, 12 of 12 free
            rack-20  12/12 free
            .... rack-20-n[0-2]

            HELD BY         HELD   NODES   DOMAIN                  KIND
        A   default/llama   6      2       zone-a/block-0/rack-0   InferenceEngineInstance
        B   default/train   2      1       zone-a/block-0/rack-2   Job
        C   default/chat    1      1       zone-a/block-0/rack-1   PodCliqueSet

        . free   a partly used   - free, node not schedulable   ! unhealthy
    """)  # noqa: E501


@pytest.mark.parametrize(
    ("detail", "topology"),
    [
        (
            "rack",
            """
            zone-a  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
              block-0  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
                rack-0  AAAAAA·· 2/8 free          rack-1  c······· 7/8 free
                rack-2  B×-- 0/4 free 1 Cordoned   rack-10 ---- 0/4 free 1 NotReady
            zone-b ············ 12/12 free
            """,
        ),
        (
            "block",
            """
            zone-a  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy
              block-0 AAAABc×·····---- 9/24 free 1 Cordoned 1 NotReady
            zone-b ············ 12/12 free
            """,
        ),
        (
            "zone",
            """
            zone-a AAAABc×·····---- 9/24 free 1 Cordoned 1 NotReady
            zone-b ············ 12/12 free
            """,
        ),
    ],
)
def test_picture_of_a_level(detail: str, topology: str):
    assert text(topology) in draw(busy_view(), 80, detail)


def test_next_copy_is_marked():
    one = {"nvidia.com/gpu": 2}
    agents = tuple(
        CopyPod(f"ns/next-{index}", "agents", "rack-20-n1", "", devices, one)
        for index, devices in enumerate(("0,1", "3,2"))
    )
    drawn = draw(busy_view(agents), 80)
    assert (
        text("""
        rack-20  12/12 free
            ···· rack-20-n[0,2]
            #### rack-20-n1
    """)
        in drawn
    )
    assert "· free   # next copy   a partly used" in drawn


def test_colours_change_no_character():
    plain, coloured = draw(busy_view(), 80), draw(busy_view(), 80, coloured=True)
    assert _ESCAPE.sub("", coloured) == plain
    assert "\x1b[31m×\x1b[0m" in coloured
    assert "\x1b[33mCordoned\x1b[0m" in coloured
    letter = re.search(r"(\x1b\[38;5;\d+m)AAAA\x1b\[0m", coloured)
    assert letter is not None
    assert f"{letter[1]}A\x1b[0m   default/llama" in coloured


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int):
    for detail, coloured in product(("", "node", "rack", "zone"), (False, True)):
        drawn = draw(busy_view(), width, detail, coloured=coloured)
        assert max(map(display_width, drawn.splitlines())) <= width


def test_cluster_without_topology_is_a_list_of_nodes():
    nodes = [node(f"n{index}", gpus=2) for index in range(12)]
    view = view_topology(snapshot_of(*nodes, pods=[pod("web", "n3", [1])]))
    assert draw(view, 60) == text("""
        nvidia.com/gpu: 12 nodes, 23 of 24 free

        ·· n[0-2,4-11]   ·A n3

            HELD BY       HELD   NODES   DOMAIN   KIND
        A   default/web   1      1       -        Pod

        · free
    """)


def test_nodes_without_a_domain_are_shown_beside_the_others():
    view = view_topology(snapshot_of(node("a", "zone-a/b/r"), node("b", "zone-a"), node("c")))
    assert draw(view, 60).split("\n\n")[1] == text("""
        (no zone)  1 node, 4 of 4 free
            ···· c
        zone-a  2 nodes, 8 of 8 free
          (no block)  1 node, 4 of 4 free
            ···· b
          b  1 node, 4 of 4 free
            r  4/4 free
            ···· a
    """)


def large_cluster() -> list[Node]:
    return [
        node(f"n-{number}", f"zone-{number // 2500}/block-{number // 500}/rack-{number // 10}", 8)
        for number in range(5000)
    ]


def test_thousands_of_nodes_are_folded():
    pods = [
        pod(f"llama-{index}", f"n-{4003 + index}", range(8), instance="llama")
        for index in range(20)
    ]
    view = view_topology(snapshot_of(*large_cluster(), pods=pods))
    assert draw(view, 80) == text("""
        nvidia.com/gpu: 5000 nodes, 39840 of 40000 free

        zone-0 ················ 20000/20000 free
        zone-1  2500 nodes, 19840 of 20000 free
          block-[5-7] ················ 4000/4000 free
          block-8  500 nodes, 3840 of 4000 free
            rack-400       AAAAAAAAAAA····· 24/80 free
            rack-401       AAAAAAAAAAAAAAAA 0/80 free
            rack-402       AAAAA··········· 56/80 free
            rack-[403-449] ················ 80/80 free
          block-9 ················ 4000/4000 free

            HELD BY         HELD   NODES   DOMAIN           KIND
        A   default/llama   160    20      zone-1/block-8   InferenceEngineInstance

        · free
    """)
    assert len(draw(view, 80, "node").splitlines()) > MAX_LINES


def test_every_rack_in_another_state_is_drawn_by_block():
    pods = [
        pod(f"p-{number}", f"n-{number}", range(1 + number // 10 % 7))
        for number in range(0, 5000, 10)
    ]
    drawn = draw(view_topology(snapshot_of(*large_cluster(), pods=pods)), 80)
    assert len(drawn.splitlines()) <= MAX_LINES + 40
    assert "block-3 " in drawn
    assert "more holders of" in drawn


def test_amounts_of_another_resource_fill_the_first_accelerators():
    nodes = [
        node("a", "z/b/r", gpus=0, resources={NPU: 4}),
        node("b", "z/b/r", gpus=0, resources={NPU: 40}),
    ]
    pods = [
        pod("one", "a", instance="x", resources={NPU: 3}),
        pod("two", "b", instance="y", resources={NPU: 10}),
    ]
    view = view_topology(snapshot_of(*nodes, pods=pods), NPU)
    assert text("""
            r  31/44 free
            BBB·             a
            AAAA············ b of 40
    """) in dedent(draw(view).split("\n\n")[1].split("\n", 2)[2])


def test_annotations_stand_behind_nodes_and_domains():
    view = busy_view()
    nodes = tuple(
        replace(each, annotation="PDU 7") if each.name == "rack-0-n0" else each
        for each in view.nodes
    )
    noted = replace(
        view, nodes=nodes, annotations={"zone-a": "12 kW", "zone-a/block-0/rack-1": "hot"}
    )
    drawn = draw(noted, 100)
    assert "AAAA rack-0-n0 PDU 7" in drawn
    assert "rack-1  7/8 free  hot" in drawn
    assert "zone-a  6 nodes, 9 of 24 free, 6 not schedulable, 1 unhealthy  12 kW" in drawn
    assert "rack-1  c······· 7/8 free  hot" in draw(noted, 100, "rack")
