"""A shim for each test, stopped with all its containers, also when the test fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.processnode.shim.shim_site import ShimSite


@pytest.fixture
async def shim_site(tmp_path: Path) -> AsyncIterator[ShimSite]:
    made = ShimSite(tmp_path)
    try:
        yield made
    finally:
        await made.runtime.shutdown()
