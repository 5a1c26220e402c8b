"""From the command to a cluster with all its nodes: from nothing, and on what is there."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.looking import count
from bench.comparing import compared
from bench.home import start as home_start
from bench.home.inputs import Inputs as HomeInputs
from bench.home.servers import peer
from bench.product.inputs import Inputs
from bench.product.running import FLEETS, Product, product_of
from bench.report import Figures, Quantity, Row

_AIM_SECONDS = {"small": 3, "large": 10}


def measure(fleets: Sequence[str], inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """The peer is kube-apiserver and etcd until they are ready, without a node."""

    def peers(folder: Path) -> Figures:
        found = home_start.measure(peer(), folder, HomeInputs(starts=inputs.starts))
        return {_ready(fleet): found[home_start.READY] for fleet in fleets}

    def ours(folder: Path) -> Figures:
        figures: Figures = {}
        for fleet in fleets:
            figures |= _start(fleet, folder, inputs.starts)
        return figures

    return compared(ours, peers if with_peer else None, data)


def _start(fleet: str, folder: Path, starts: int) -> Figures:
    first: list[float] = []
    again: list[float] = []
    for number in range(starts):
        fresh = folder / f"{fleet}-{number}"
        fresh.mkdir()
        with product_of(fresh, fleet) as product:
            first.append(product.up())
            _require_all_nodes(product, fleet)
            product.down()
            again.append(product.up())
            _require_all_nodes(product, fleet)
    return {_ready(fleet): statistics.median(first), _again(fleet): statistics.median(again)}


def _require_all_nodes(product: Product, fleet: str) -> None:
    """The time would be worth nothing if it came before the nodes; this machine is one more."""
    found = count(product.server(), "/api/v1/nodes")
    if found != FLEETS[fleet] + 1:
        raise RuntimeError(f"`up` is done, but there are {found} nodes of {FLEETS[fleet] + 1}")


def _ready(fleet: str) -> Quantity:
    title = f"up, {FLEETS[fleet]:,} nodes: ready, from nothing"
    return Quantity(title, "s", aim=_AIM_SECONDS[fleet])


def _again(fleet: str) -> Quantity:
    title = f"up, {FLEETS[fleet]:,} nodes: ready again, on its data"
    return Quantity(title, "s", aim=_AIM_SECONDS[fleet])
