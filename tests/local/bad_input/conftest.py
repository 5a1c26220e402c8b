"""One cluster per module: what a refusal left behind would show in the next."""

from collections.abc import Iterator

import pytest

from tests.local.bad_input.border import Border, open_border


@pytest.fixture(scope="module")
def border() -> Iterator[Border]:
    with open_border() as opened:
        yield opened
