"""How many pods are created per second over many connections, and what one costs."""

from pathlib import Path

from bench.home.inputs import Inputs
from bench.home.load import create_pods
from bench.home.pods import encoded, minimal_pod, realistic_pod
from bench.home.servers import Start
from bench.report import Figures, Quantity

_AIM_PER_SECOND = 3_000
_WARM_UP = 1_000
_SORTS = {"realistic": realistic_pod, "minimal": minimal_pod}


def measure(start: Start, folder: Path, inputs: Inputs) -> Figures:
    """Rates for both sorts of pod, and the processor time of server and generator per pod."""
    figures: Figures = {}
    with start(folder) as server:
        server.make_namespace()
        for sort, pod in _SORTS.items():
            body = encoded(pod(generateName=f"{sort}-"))
            create_pods(server, body, min(_WARM_UP, inputs.pods), inputs.connections)
            burst = create_pods(server, body, inputs.pods, inputs.connections)
            figures |= {
                rate_of(sort, inputs.connections): burst.per_second,
                cost_of(sort, "server"): burst.server_cpu * 1e6 / burst.count,
                cost_of(sort, "generator"): burst.generator_cpu * 1e6 / burst.count,
            }
    return figures


def measure_rates(start: Start, folder: Path, inputs: Inputs) -> Figures:
    """The rates alone, of servers that do not wait for the disk."""
    figures = measure(start, folder, inputs)
    return {
        Quantity(f"{quantity.title}, no wait for the disk", "/s", "more"): figure
        for quantity, figure in figures.items()
        if quantity.unit == "/s"
    }


def rate_of(sort: str, width: int) -> Quantity:
    """Pods per second."""
    return Quantity(
        f"{sort} pod creates, {width} connections", "/s", "more", _AIM_PER_SECOND, beats_peer=True
    )


def cost_of(sort: str, whose: str) -> Quantity:
    """Processor time per pod."""
    return Quantity(f"{sort} pod create, CPU of the {whose}", "µs")
