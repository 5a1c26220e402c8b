"""Every row of KGWE's description has tests of its behaviour, or says that it is not here."""

import ast
from pathlib import Path

import pytest

from tests.gpu.kgwe.rows import PAGE, ROOT, SECTIONS, Row, replace_tables

_TESTS = ROOT / "tests"
_ROWS = [(section, row) for section, rows in SECTIONS.items() for row in rows]
_WITHOUT_TESTS = 4
"""A chart, the optimizer, the cost engine, and what benchmarks measure."""


@pytest.mark.parametrize(("section", "row"), _ROWS, ids=[f"{x}: {y.kgwe}" for x, y in _ROWS])
def test_tests_of_a_row_exist(section: str, row: Row) -> None:
    for each in row.tests:
        file, _, name = each.partition("::")
        assert name in functions_of(_TESTS / file), f"{section}: {row.kgwe}: no test {each}"


def test_few_rows_have_no_test() -> None:
    assert sum(not row.tests for _, row in _ROWS) == _WITHOUT_TESTS


def test_page_has_the_rows() -> None:
    hint = "run `python -m tests.gpu.kgwe.rows`"
    assert PAGE.read_text() == replace_tables(PAGE.read_text()), hint


def functions_of(file: Path) -> set[str]:
    """The functions of a module."""
    found = ast.walk(ast.parse(file.read_text()))
    return {x.name for x in found if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)}
