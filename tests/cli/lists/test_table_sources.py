"""Table sources: missing permissions."""

import asyncio

import msgspec
import pytest

from kilonova.cli.lists.table_sources import TableSource, filter_readable
from kilonova.kube import Client, Forbidden, InProcessTransport, Reply, Request


@pytest.mark.looptime
async def test_first_missing_permission_is_reported_regardless_of_reply_order():
    async def answer(request: Request) -> Reply:
        name = request.path.rpartition("/")[2]
        await asyncio.sleep({"nodes": 2, "pods": 1}[name])
        status = {"kind": "Status", "code": 403, "message": f"{name} is forbidden"}
        return Reply(403, msgspec.json.encode(status))

    client = Client(InProcessTransport(answer))
    with pytest.raises(Forbidden, match="nodes is forbidden"):
        await filter_readable(client, (TableSource("nodes"), TableSource("pods")))
