"""Every requirement has tests of its behaviour."""

import pytest

from tests.fleet.checklist.rows import PAGE
from tests.harness.feature_rows import Row

_ROWS = [row for _, row in PAGE.rows()]


@pytest.mark.parametrize("row", _ROWS, ids=[row.described for row in _ROWS])
def test_tests_of_a_row_exist(row: Row) -> None:
    assert row.tests, row.described
    assert row.list_missing_tests() == [], row.described


def test_all_requirements_have_a_row() -> None:
    numbers = sorted(int(row.described.partition(":")[0].removeprefix("N")) for row in _ROWS)
    assert numbers == list(range(1, 19))


def test_page_has_the_rows() -> None:
    hint = "run `python -m tests.fleet.checklist.rows`"
    assert PAGE.path.read_text() == PAGE.render(), hint
