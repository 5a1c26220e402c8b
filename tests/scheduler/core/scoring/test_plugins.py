"""Every built-in score plugin returns numbers from 0 to 100 for any node."""

from itertools import product

import numpy as np
import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.plugins import ScorePlugin, default_scoring
from tests.scheduler.core.support.clusters import shape

HUGE = 1 << 62


def snapshot() -> Snapshot:
    """Nodes with nothing, little and absurdly much, some used beyond their capacity."""
    made = Snapshot()
    for number, (cpu, memory, gpus) in enumerate(product((0, 1, HUGE), (0, HUGE), (0, 1, 16))):
        made.put_node(Node(f"n{number}", {"cpu": cpu, "memory": memory, "pods": 1, GPU: gpus}))
        if number % 2:
            made.add_pod(
                PodPlacement(Member(f"ns/p{number}", shape(1, 10**6)), made.row(f"n{number}"))
            )
    return made


@pytest.mark.parametrize("asked", [shape(0), shape(1), shape(16), shape(1, milli=1), shape(0, 0)])
@pytest.mark.parametrize("part", default_scoring().plugins, ids=lambda part: part.name)
def test_builtin_plugins_score_within_range(part: ScorePlugin, asked: Shape) -> None:
    assert part.is_trusted
    made = snapshot()
    scores = part.score(made, asked, np.arange(made.size))
    assert scores.shape == (made.size,)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert (scores <= 100).all()
