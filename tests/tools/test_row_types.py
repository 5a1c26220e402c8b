"""TypeScript types of the console's rows, generated from the Python ones."""

from kilonova.console.rows.model import GangRow, NodeRow
from kilonova.scheduler.console import QueueRow
from tools.frontend.rows import FOLDER, build_interface, build_module, list_tables, order_types


def test_committed_types_are_up_to_date() -> None:
    stale = "run `python -m tools.frontend.rows`, then `make frontend`"
    assert (FOLDER / "rows.ts").read_text() == build_module(), stale


def test_fields_with_a_default_are_optional_unless_always_sent() -> None:
    interface = build_interface(NodeRow)
    assert "  ready: boolean;" in interface
    assert "  state: string;" in interface
    assert "  maxPods?: number;" in interface


def test_collections_are_translated() -> None:
    interface = build_interface(QueueRow)
    assert "  fairShare?: Amounts;" in interface
    assert "  groups: GangGroup[];" in build_interface(GangRow)


def test_types_precede_the_rows_that_use_them() -> None:
    names = [each.__name__ for each in order_types(list_tables().values())]
    assert names.index("GangGroup") < names.index("GangRow")
    assert len(names) == len(set(names))
