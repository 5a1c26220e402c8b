"""Time until a cluster with all nodes is ready: cold start, and restart on its data."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.observation import count_objects
from bench.comparison import compare_with_peer
from bench.home import startup as home_start
from bench.home.inputs import Inputs as HomeInputs
from bench.home.servers import start_peer
from bench.product.inputs import Inputs
from bench.product.instance import FLEETS, KilonovaInstance, prepared_instance
from bench.report import Measurements, Quantity, Row

_TARGET_SECONDS = {"small": 3, "large": 10}


def measure(fleets: Sequence[str], inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """The peer is kube-apiserver and etcd until they are ready, without a node."""

    def measure_peer(folder: Path) -> Measurements:
        found = home_start.measure(start_peer(), folder, HomeInputs(starts=inputs.starts))
        return {_first_start_quantity(fleet): found[home_start.READY] for fleet in fleets}

    def measure_ours(folder: Path) -> Measurements:
        figures: Measurements = {}
        for fleet in fleets:
            figures |= _measure_start(fleet, folder, inputs.starts)
        return figures

    return compare_with_peer(measure_ours, measure_peer if with_peer else None, data)


def _measure_start(fleet: str, folder: Path, starts: int) -> Measurements:
    first: list[float] = []
    restarts: list[float] = []
    for number in range(starts):
        fresh = folder / f"{fleet}-{number}"
        fresh.mkdir()
        with prepared_instance(fresh, fleet) as product:
            first.append(product.start())
            _require_all_nodes(product, fleet)
            product.stop()
            restarts.append(product.start())
            _require_all_nodes(product, fleet)
    return {
        _first_start_quantity(fleet): statistics.median(first),
        _restart_quantity(fleet): statistics.median(restarts),
    }


def _require_all_nodes(product: KilonovaInstance, fleet: str) -> None:
    """Check that all nodes exist, including this machine; otherwise the time would be invalid."""
    found = count_objects(product.get_server(), "/api/v1/nodes")
    if found != FLEETS[fleet] + 1:
        raise RuntimeError(f"`up` has finished with {found} of {FLEETS[fleet] + 1} nodes")


def _first_start_quantity(fleet: str) -> Quantity:
    title = f"up, {FLEETS[fleet]:,} nodes: ready, cold start"
    return Quantity(title, "s", target=_TARGET_SECONDS[fleet])


def _restart_quantity(fleet: str) -> Quantity:
    title = f"up, {FLEETS[fleet]:,} nodes: ready, restart on its data"
    return Quantity(title, "s", target=_TARGET_SECONDS[fleet])
