"""Every row of KGWE's description has tests of its behaviour, or says that it is not here."""

import pytest

from tests.gpu.kgwe.rows import PAGE
from tests.harness.feature_rows import Row

_WITHOUT_TESTS = 4
"""A chart, the optimizer, the cost engine, and what benchmarks measure."""


@pytest.mark.parametrize(
    ("section", "row"), PAGE.rows(), ids=[f"{x}: {y.described}" for x, y in PAGE.rows()]
)
def test_tests_of_a_row_exist(section: str, row: Row) -> None:
    assert row.list_missing_tests() == [], f"{section}: {row.described}"


def test_few_rows_have_no_test() -> None:
    assert sum(not row.tests for _, row in PAGE.rows()) == _WITHOUT_TESTS


def test_page_has_the_rows() -> None:
    hint = "run `python -m tests.gpu.kgwe.rows`"
    assert PAGE.path.read_text() == PAGE.render(), hint
