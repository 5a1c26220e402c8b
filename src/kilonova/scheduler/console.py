"""Queues in the console: their table, page, charts and search target."""

from collections.abc import Iterator

from kilonova.api.scheduling import GROUP, NOT_OBSERVED, VERSION, Queue
from kilonova.catalog.resource_names import GPU
from kilonova.component.console import (
    ChartLine,
    Charts,
    ConsoleContribution,
    Measurement,
    Page,
    Row,
    SearchTarget,
    Series,
    Table,
    TimeChart,
)
from kilonova.component.console.values import Amounts, parse_quantities, parse_timestamp
from kilonova.kube import Resource
from kilonova.kube.status.conditions import find_condition

_USED = "queue-gpus-used"
_REQUESTED = "queue-gpus-requested"
_FAIR_SHARE = "queue-gpus-fair-share"
_ROOT_USED = "root-queue-gpus-used"
_PENDING = "queue-gangs-pending"


class QueueRow(Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A queue. Its id is its name."""

    weight: int
    ready: bool
    observed: bool
    """Whether a scheduler has written its status."""
    parent: str = ""
    priority: int = 0
    deserved: Amounts = {}  # noqa: RUF012 (copied by msgspec)
    limit: Amounts = {}  # noqa: RUF012 (copied by msgspec)
    used: Amounts = {}  # noqa: RUF012 (copied by msgspec)
    requested: Amounts = {}  # noqa: RUF012 (copied by msgspec)
    fair_share: Amounts = {}  # noqa: RUF012 (copied by msgspec)
    pending_gangs: int = 0
    message: str = ""
    """How to fix it while it is not ready."""
    created: float | None = None


def queue_row(queue: Queue) -> QueueRow:
    """The row of a queue."""
    spec, status = queue.spec, queue.status
    condition = find_condition(status.conditions, "Ready")
    ready = condition is not None and condition.status == "True"
    return QueueRow(
        id=queue.metadata.name,
        parent=spec.parent or "",
        weight=spec.weight,
        priority=spec.priority,
        deserved=parse_quantities(spec.deserved),
        limit=parse_quantities(spec.limit),
        used=parse_quantities(status.allocated),
        requested=parse_quantities(status.requested),
        fair_share=parse_quantities(status.fair_share),
        pending_gangs=status.pending_gangs,
        ready=ready,
        observed=condition is not None,
        message=NOT_OBSERVED if condition is None else condition.message,
        created=parse_timestamp(queue.metadata.creation_timestamp),
    )


def _measure_queue(queue: Queue) -> Iterator[Measurement]:
    row = queue_row(queue)
    yield Measurement(_USED, row.used.get(GPU, 0), row.id)
    yield Measurement(_REQUESTED, row.requested.get(GPU, 0), row.id)
    yield Measurement(_FAIR_SHARE, row.fair_share.get(GPU, 0), row.id)
    if not row.parent:
        # The usage of a queue includes that of the queues below it.
        yield Measurement(_ROOT_USED, row.used.get(GPU, 0), row.id)
    yield Measurement(_PENDING, row.pending_gangs, row.id)


QUEUES = Table("queues", Resource(GROUP, VERSION, "queues", "Queue", False, Queue), queue_row)

CONTRIBUTION = ConsoleContribution(
    component="scheduler",
    tables=(QUEUES,),
    pages=(
        Page(
            path="/queues",
            title="Queues",
            key="q",
            icon="queues",
            order=30,
            has_details=True,
            charts=(
                # Series of the console itself.
                TimeChart(
                    "GPUs",
                    (
                        ChartLine("gpus-allocated", "Allocated"),
                        ChartLine("gpus", "Total", dashed=True),
                    ),
                    style="area",
                ),
                TimeChart("GPUs by queue", style="stacked", by_key=_ROOT_USED),
                TimeChart("Pending pods", (ChartLine("pods-pending", "Pending"),), style="area"),
            ),
        ),
    ),
    sections={
        "queues": (
            Charts(
                (
                    TimeChart(
                        "GPUs",
                        (
                            ChartLine(_USED, "Used"),
                            ChartLine(_REQUESTED, "Requested"),
                            ChartLine(_FAIR_SHARE, "Fair share", dashed=True),
                        ),
                    ),
                    TimeChart("Pending gangs", (ChartLine(_PENDING, "Pending"),), style="area"),
                )
            ),
        )
    },
    search=(SearchTarget("queues", "Queue", ("below {parent}",), order=20),),
    series=(
        Series(
            names=(_USED, _REQUESTED, _FAIR_SHARE, _ROOT_USED, _PENDING),
            table="queues",
            measure=_measure_queue,
        ),
    ),
)
