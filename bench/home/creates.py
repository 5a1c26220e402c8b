"""Pod creates per second over many connections, and CPU per pod."""

from pathlib import Path

from bench.home.inputs import Inputs
from bench.home.pod_creation import create_pods
from bench.home.pods import build_minimal_pod, build_realistic_pod, encode_pod
from bench.home.servers import StartServer
from bench.report import Measurements, Quantity

_TARGET_PER_SECOND = 3_000
_WARM_UP = 1_000
_POD_SIZES = {"realistic": build_realistic_pod, "minimal": build_minimal_pod}


def measure(start: StartServer, folder: Path, inputs: Inputs) -> Measurements:
    """Rates for both pod sizes, and CPU of server and generator per pod."""
    figures: Measurements = {}
    with start(folder) as server:
        server.create_namespace()
        for sort, pod in _POD_SIZES.items():
            body = encode_pod(pod(generateName=f"{sort}-"))
            create_pods(server, body, min(_WARM_UP, inputs.pods), inputs.connections)
            run = create_pods(server, body, inputs.pods, inputs.connections)
            figures |= {
                rate_quantity(sort, inputs.connections): run.per_second,
                cost_quantity(sort, "server"): run.server_cpu * 1e6 / run.count,
                cost_quantity(sort, "generator"): run.client_cpu * 1e6 / run.count,
            }
    return figures


def measure_rates(start: StartServer, folder: Path, inputs: Inputs) -> Measurements:
    """The rates of servers that do not sync to disk."""
    figures = measure(start, folder, inputs)
    return {
        Quantity(f"{quantity.title}, without disk sync", "/s", "more"): figure
        for quantity, figure in figures.items()
        if quantity.unit == "/s"
    }


def rate_quantity(pod_size: str, connections: int) -> Quantity:
    """Pods per second."""
    return Quantity(
        f"{pod_size} pod creates, {connections} connections",
        "/s",
        "more",
        _TARGET_PER_SECOND,
        beats_peer=True,
    )


def cost_quantity(pod_size: str, process: str) -> Quantity:
    """CPU per pod."""
    return Quantity(f"{pod_size} pod create, CPU of the {process}", "µs")
