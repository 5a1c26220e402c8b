"""Every part of the score that is ours gives a number from 0 to 100, whatever a node is like."""

from itertools import product

import numpy as np
import pytest

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.scores import Part, default_scoring
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot
from tests.scheduler.core.clusters import shape

HUGE = 1 << 62


def snapshot() -> Snapshot:
    """Nodes with nothing, little and absurdly much, some used beyond what they have."""
    made = Snapshot()
    for number, (cpu, memory, gpus) in enumerate(product((0, 1, HUGE), (0, HUGE), (0, 1, 16))):
        made.put_node(Node(f"n{number}", {"cpu": cpu, "memory": memory, "pods": 1, GPU: gpus}))
        if number % 2:
            made.book(Booking(Member(f"ns/p{number}", shape(1, 10**6)), made.row(f"n{number}")))
    return made


@pytest.mark.parametrize("asked", [shape(0), shape(1), shape(16), shape(1, milli=1), shape(0, 0)])
@pytest.mark.parametrize("part", default_scoring().parts, ids=lambda part: part.name)
def test_a_part_of_ours_is_sound(part: Part, asked: Shape) -> None:
    assert part.sound
    made = snapshot()
    scores = part.score(made, asked, np.arange(made.size))
    assert scores.shape == (made.size,)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert (scores <= 100).all()
