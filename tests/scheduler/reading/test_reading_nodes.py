"""What placement knows of a node, from what the API server holds."""

import msgspec
import pytest

from kilonova.scheduler.core.snapshot import MOST_GPUS
from kilonova.scheduler.objects import Node
from kilonova.scheduler.reading.nodes import node_of


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.product": "H100"}], ids=["bare", "model"])
def test_a_node_that_offers_absurdly_many_gpus_takes_no_more_memory_than_others(
    labels: dict[str, str],
) -> None:
    wire = {
        "metadata": {"name": "odd", "uid": "1", "resourceVersion": "1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "1000000000000000"}},
    }
    node, problem = node_of(msgspec.convert(wire, Node))
    assert problem is None
    assert node.layout is not None
    assert len(node.layout.gpus) == MOST_GPUS
