"""What `why` tells of sick devices and nodes, and of nodes on which a workload failed."""

from dataclasses import replace

import pytest

from kilonova.cli.whytext import answer_text
from kilonova.scheduler.answering import answer
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Gpu, Layout, Share
from kilonova.scheduler.core.gangs import Gang, Member, single
from kilonova.scheduler.core.nodes import Node, Taint
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.picture import Picture, picture_of
from tests.scheduler.core.clusters import node, shape


def sick_node(*, healthy: bool = True, taint: str = "") -> Node:
    layout = Layout((Gpu(0, 80_000), Gpu(1, 80_000, healthy=healthy)))
    taints = (Taint(taint, "NoExecute"),) if taint else ()
    return replace(node("n0", gpus=2), layout=layout, taints=taints)


def picture(on: Node, *waiting: Gang) -> Picture:
    """A pod with both GPUs stands on a node."""
    cluster = Cluster()
    row = cluster.snapshot.put_node(on)
    one = replace(single(Member("ns/p", shape(2))), name="pod/ns/p")
    [group] = one.groups
    booking = Booking(group.members[0], row, (Share(0, 1000), Share(1, 1000)), one.name)
    cluster.snapshot.book(booking)
    standing = replace(group, members=(), standing=group.members, placed=(on.name,))
    cluster.stand(replace(one, groups=(standing,)), [booking], 0.0)
    return picture_of(cluster, waiting, [], Policy(), 60.0)


@pytest.mark.parametrize(
    ("on", "trouble"),
    [
        (sick_node(), ""),
        (sick_node(healthy=False), "device 1 is not healthy"),
        (
            sick_node(taint="node.kubernetes.io/unreachable"),
            "the node has the taint node.kubernetes.io/unreachable",
        ),
        (sick_node(taint="example.com/own"), ""),
    ],
    ids=["well", "sick device", "lost node", "tainted by people"],
)
def test_why_tells_what_is_wrong_with_a_place(on: Node, trouble: str) -> None:
    found = answer(picture(on), "ns", "p")
    assert found is not None
    assert [pod.trouble for pod in found.pods] == [trouble]
    assert (f"Trouble of ns/p on n0: {trouble}" in answer_text(found, 60.0)) == bool(trouble)


def test_nodes_that_failed_a_workload_are_counted() -> None:
    careful = replace(shape(1), avoided=frozenset({"n0"}))
    waits = replace(single(Member("ns/w", careful)), name="pod/ns/w")
    found = answer(picture(sick_node(), waits), "ns", "w")
    assert found is not None
    assert "1 node(s) failed this workload before" in answer_text(found, 60.0)
