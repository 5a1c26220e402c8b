"""Series of GPUs and pods."""

from collections.abc import Iterator

from kilonova.component.console import Measurement, Series
from kilonova.console.objects import Node, Pod
from kilonova.console.rows.model import TERMINAL_PHASES
from kilonova.console.rows.nodes import node_row
from kilonova.console.rows.pods import pod_row

GPUS = "gpus"
GPUS_ALLOCATED = "gpus-allocated"
PODS_PENDING = "pods-pending"


def _measure_node(node: Node) -> Iterator[Measurement]:
    yield Measurement(GPUS, node_row(node).gpus)


def _measure_pod(pod: Pod) -> Iterator[Measurement]:
    row = pod_row(pod)
    if row.allocated_gpus:
        yield Measurement(GPUS_ALLOCATED, row.allocated_gpus)
    if not row.node and row.phase not in TERMINAL_PHASES:
        yield Measurement(PODS_PENDING, 1)


SERIES = (
    Series(names=(GPUS,), table="nodes", measure=_measure_node),
    Series(names=(GPUS_ALLOCATED, PODS_PENDING), table="pods", measure=_measure_pod),
)
