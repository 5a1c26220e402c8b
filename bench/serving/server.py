"""`kilonova serve-model` on a tiny model over HTTP, beside other servers with the same model."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.comparison import measure_in_temporary_folder
from bench.processes import sum_cpu_seconds
from bench.report import Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.load import Destination, send_clients
from bench.serving.model_servers import run_model_servers
from bench.serving.peers.servers import (
    PeerServer,
    StartServer,
    build_triton_start,
    run_kserve,
    run_ray_serve,
)
from tools.realparts.parts import triton

_TENSOR = {"datatype": "INT32", "shape": [16], "data": list(range(16))}
_REQUEST = {"id": "1", "inputs": [{"name": "INPUT0", **_TENSOR}, {"name": "INPUT1", **_TENSOR}]}
_WARM_UP_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class _Figures:
    throughput: float
    p50: float
    p99: float
    cpu_microseconds: float
    memory: float


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """One server after another."""

    def measure_server(start: StartServer) -> _Figures:
        return measure_in_temporary_folder(lambda folder: _measure(folder, inputs, start), data)

    ours = measure_server(_run_ours)
    rows: list[Row] = []
    for name, start in (_list_peers() if with_peer else {}).items():
        rows += _build_rows(name, inputs, ours, measure_server(start))
    return rows or _build_rows("", inputs, ours, None)


def _list_peers() -> dict[str, StartServer]:
    """Triton only where `make real-parts` has got it."""
    peers: dict[str, StartServer] = {"KServe SDK": run_kserve, "Ray Serve": run_ray_serve}
    part = triton.PART.find()
    return peers if part is None else {**peers, "Triton": build_triton_start(part)}


@contextmanager
def _run_ours(folder: Path) -> Generator[PeerServer]:
    with run_model_servers(folder, 1, "add") as [server]:
        yield PeerServer(server.http_url, [psutil.Process(server.process.pid)])


def _measure(folder: Path, inputs: Inputs, start: StartServer) -> _Figures:
    with start(folder) as server:
        destination = Destination(url=server.url, model="add", bodies=(_REQUEST,))
        clients, seconds = inputs.server_clients, inputs.server_seconds
        asyncio.run(send_clients(destination, clients, seconds, _WARM_UP_REQUESTS))
        before = sum_cpu_seconds(server.processes)
        load = asyncio.run(send_clients(destination, clients, seconds))
        used = sum_cpu_seconds(server.processes) - before
        memory = sum(each.memory_info().rss for each in server.processes) / 1e6
    load.require_success()
    latency = load.get_latency()
    cpu = 1e6 * used / load.result.requests
    return _Figures(load.result.throughput, latency.p50, latency.p99, cpu, memory)


def _build_rows(name: str, inputs: Inputs, ours: _Figures, peer: _Figures | None) -> list[Row]:
    title = f"v2 HTTP, {inputs.server_clients} connections" + (f", {name} beside" if name else "")
    is_target = name in ("KServe SDK", "Ray Serve")
    return [
        Row(
            Quantity(f"{title}: requests", "/s", "more", beats_peer=is_target),
            ours.throughput,
            peer and peer.throughput,
        ),
        Row(
            Quantity(f"{title}: CPU of the server", "µs", beats_peer=is_target),
            ours.cpu_microseconds,
            peer and peer.cpu_microseconds,
        ),
        Row(Quantity(f"{title}: p50", "ms"), ours.p50, peer and peer.p50),
        Row(Quantity(f"{title}: p99", "ms"), ours.p99, peer and peer.p99),
        Row(Quantity(f"{title}: memory (RSS)", "MB"), ours.memory, peer and peer.memory),
    ]
