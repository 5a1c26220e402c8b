"""A keeper for each test, ended with all that it runs, also when the test fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.process.keeper.site import Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    try:
        yield made
    finally:
        await made.runtime.shutdown()
