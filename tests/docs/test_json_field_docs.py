"""What `docs/cli.md` says of `-o json` is what programs get."""

import re
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from pathlib import Path

import msgspec
import pytest

from kilonova.cli.doctor.checks import DoctorReport
from kilonova.cli.lists.views import GangView, NodeView, WorkloadView
from kilonova.cli.up.status import Status
from kilonova.scheduler.library.consolidation_proposal import ConsolidationProposal
from kilonova.scheduler.library.decisions import SchedulingDecisions
from kilonova.scheduler.library.placement_report import PlacementReport
from kilonova.scheduler.library.queue_views import QueueView

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
TYPES: dict[str, type] = {
    "`status`": Status,
    "each of `nodes`": NodeView,
    "each of `gangs`": GangView,
    "each of `workloads`": WorkloadView,
    "each of `queues`": QueueView,
    "`why`": PlacementReport,
    "`plan -f`, `snapshot replay`": SchedulingDecisions,
    "`plan --moves`": ConsolidationProposal,
    "`doctor`": DoctorReport,
}


@pytest.mark.parametrize("of", TYPES)
def test_every_field_is_named_in_its_order(of: str) -> None:
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {of} |"))
    fields = re.findall("`([^`]+)`", line.split("|")[2].partition(",")[0])
    assert fields == _list_fields(TYPES[of])


def _list_fields(type_: type) -> list[str]:
    """As they are printed."""
    if is_dataclass(type_):
        names = (each.name for each in dataclass_fields(type_))
        return [re.sub("_(.)", lambda found: found[1].upper(), name) for name in names]
    assert issubclass(type_, msgspec.Struct)
    return [each.encode_name for each in msgspec.structs.fields(type_)]
