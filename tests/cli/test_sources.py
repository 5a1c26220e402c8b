"""What is read of a cluster, and what is said where it may not be."""

import asyncio

import msgspec
import pytest

from kilonova.cli.sources import Source, readable
from kilonova.kube import Client, Forbidden, InProcessTransport, Reply, Request


@pytest.mark.looptime
async def test_the_first_right_that_is_missing_is_told_whoever_answers_first():
    async def answer(request: Request) -> Reply:
        name = request.path.rpartition("/")[2]
        await asyncio.sleep({"nodes": 2, "pods": 1}[name])
        said = {"kind": "Status", "code": 403, "message": f"{name} is forbidden"}
        return Reply(403, msgspec.json.encode(said))

    client = Client(InProcessTransport(answer))
    with pytest.raises(Forbidden, match="nodes is forbidden"):
        await readable(client, (Source("nodes"), Source("pods")))
