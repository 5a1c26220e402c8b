"""Conversion of nodes."""

import msgspec
import pytest

from kilonova.scheduler.convert.nodes import convert_node
from kilonova.scheduler.core.model.node_table import MAX_GPUS
from kilonova.scheduler.objects.core_v1 import Node


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.product": "H100"}], ids=["bare", "model"])
def test_number_of_gpus_of_a_node_is_capped(
    labels: dict[str, str],
) -> None:
    wire = {
        "metadata": {"name": "odd", "uid": "1", "resourceVersion": "1", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "1000000000000000"}},
    }
    node, problem = convert_node(msgspec.convert(wire, Node))
    assert problem is None
    assert node.layout is not None
    assert len(node.layout.gpus) == MAX_GPUS
