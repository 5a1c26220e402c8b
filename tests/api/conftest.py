"""Both servers with our kinds installed."""

import asyncio

import pytest

from kilonova.cli.install import install_definitions
from tests.conftest import Api

_installed: set[str] = set()
"""Servers that have them; each runs as long as the tests do."""


async def _install(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)


@pytest.fixture
def api_with_definitions(api: Api) -> Api:
    """A server that has our kinds."""
    if api.access.url not in _installed:
        asyncio.run(_install(api))
        _installed.add(api.access.url)
    return api
