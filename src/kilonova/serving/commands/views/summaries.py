"""Inference services as rows of tables, and as JSON."""

import sys
import time
from collections.abc import Sequence

from kilonova.api.serving import InferenceService
from kilonova.component.command.output.colours import should_use_colour
from kilonova.component.command.output.format_names import ListFormat
from kilonova.component.command.output.list_printer import (
    ListPrinter,
    format_age,
    format_number,
    shorten,
)
from kilonova.component.failure import CommandFailed
from kilonova.serving.console.rows import InferenceServiceRow, service_row

_HEADER = ("NAMESPACE", "NAME", "PHASE", "READY", "REQUESTS/S", "P95", "IN FLIGHT", "AGE")
_WIDE = (*_HEADER, "HELD", "ERRORS/S", "REJECTED/S", "HTTP", "GRPC", "PROBLEM")


def require_services(
    found: Sequence[InferenceService], names: Sequence[str], namespace: str | None
) -> list[InferenceService]:
    """Those that were named, or all; `CommandFailed` for one that does not exist."""
    known = {each.metadata.name for each in found}
    for name in names:
        if name not in known:
            where = "any namespace" if namespace is None else f"namespace {namespace}"
            raise CommandFailed(
                f"InferenceService {name} does not exist in {where}: `kilonova serve list -A` "
                "lists all"
            )
    return [each for each in found if not names or each.metadata.name in names]


def print_services(services: Sequence[InferenceService], output: ListFormat) -> None:
    """Print a list of services."""
    now = time.time()
    is_wide = output == "wide"
    printer: ListPrinter[InferenceServiceRow] = ListPrinter(
        header=_WIDE if is_wide else _HEADER,
        cells=lambda row: _list_cells(row, now, is_wide=is_wide),
        state_columns=frozenset({2}),
        reference=lambda row: f"inferenceservice/{row.id.partition('/')[2]}",
        key=lambda row: ("", row.id),
        output_format=output,
        coloured=should_use_colour(sys.stdout),
    )
    printer.print([service_row(each) for each in services], "no inference services")


def _list_cells(row: InferenceServiceRow, now: float, *, is_wide: bool) -> tuple[str, ...]:
    namespace, _, name = row.id.partition("/")
    cells = (
        namespace,
        name,
        f"{row.phase},Paused" if row.paused else row.phase,
        f"{row.ready}/{row.replicas}",
        _format(row.requests),
        "-" if row.latency_p95 is None else f"{format_number(row.latency_p95)} ms",
        _format(row.in_flight),
        format_age(row.created, now),
    )
    if not is_wide:
        return cells
    figures = (_format(row.held), _format(row.errors), _format(row.rejected))
    return (*cells, *figures, row.url or "-", row.grpc_address or "-", shorten(row.problem))


def _format(value: float | None) -> str:
    return "-" if value is None else format_number(value)
