"""One cluster per module: anything left behind by a rejected request would show in the next
test."""

from collections.abc import Iterator

import pytest

from tests.local.apiserver.bad_input.fuzzed_api import FuzzedApi, start_fuzzed_api


@pytest.fixture(scope="module")
def fuzzed_api() -> Iterator[FuzzedApi]:
    with start_fuzzed_api() as opened:
        yield opened
