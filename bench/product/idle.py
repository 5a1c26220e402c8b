"""What `kilonova up` takes while nothing happens: alone, and with somebody looking on."""

import asyncio
import time
from pathlib import Path

from bench.cluster.looking import are_ready, share_of_a_core, wait_until
from bench.cluster.worlds import peer_world
from bench.comparing import compared
from bench.product.browser import visiting
from bench.product.inputs import Inputs
from bench.product.running import FLEETS, running
from bench.report import Figures, Quantity, Row

_FLEET = "small"
_NODES = FLEETS[_FLEET]

ALONE = Quantity(f"up, {_NODES} nodes, at rest: of a core", "%", aim=3)
VIEWED = Quantity(f"up, {_NODES} nodes, at rest, the console open: of a core", "%", aim=3)
RSS = Quantity(f"up, {_NODES} nodes: memory (RSS)", "MB", aim=250)


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """The peer is a control plane with all its controllers, and as many simulated nodes."""
    return compared(
        lambda folder: _ours(folder, inputs),
        (lambda folder: _peers(folder, inputs)) if with_peer else None,
        data,
    )


def _ours(folder: Path, inputs: Inputs) -> Figures:
    with running(folder, _FLEET) as product:
        server = product.server()
        time.sleep(inputs.settle_seconds)
        alone = share_of_a_core(server, inputs.idle_seconds)

        async def look_on() -> float:
            async with visiting(product.console()):
                await asyncio.sleep(inputs.settle_seconds)
                return await asyncio.to_thread(share_of_a_core, server, inputs.idle_seconds)

        viewed = asyncio.run(look_on())
        return {ALONE: alone, VIEWED: viewed, RSS: server.memory().rss}


def _peers(folder: Path, inputs: Inputs) -> Figures:
    with peer_world(folder, _NODES) as server:
        wait_until(lambda: are_ready(server, _NODES), "all nodes to be ready")
        time.sleep(inputs.settle_seconds)
        return {
            ALONE: share_of_a_core(server, inputs.idle_seconds),
            RSS: server.memory().rss,
        }
