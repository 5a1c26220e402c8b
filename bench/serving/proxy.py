"""What a gateway costs: CPU time of Envoy per gRPC request, and latency, without and with auth."""

import asyncio
import contextlib
import hashlib
import statistics
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.comparison import measure_in_temporary_folder
from bench.processes import read_cpu_seconds
from bench.report import Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.load import Destination, Load, send_clients
from bench.serving.model_servers import ModelServer, run_model_servers
from bench.serving.peers.supersonic import run_supersonic_gateway
from kilonova.api.serving import ApiKeys, Auth, JwtProvider, Limits, RateLimit
from kilonova.serving.gateway.model import GatewaySecrets
from kilonova.serving.signals.readings.gateway_stats import STATS_PATH
from tests.harness.http_probe import fetch
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import build_gateway, build_spec, build_state
from tests.serving.gateway.support.tokens import ISSUER, Issuer, run_issuer

_CLIENTS = (1, 16)
_MODEL = "add"
_API_KEY = "kn-of-the-benchmark"
_POLL_SECONDS = 1.0
"""How often the autoscaler reads the statistics of a gateway."""
_LIMITS = Limits(
    connections=1_000,
    requests=RateLimit(per_minute=60_000_000),
    max_body_bytes=1 << 20,
)
_PLAIN, _WITH_TOKEN, _WITH_KEY = "no auth", "JWT", "API key"
_WITH_LIMITS = "API key, limits"
_COMPARED = (
    (_PLAIN, _PLAIN),
    (_WITH_TOKEN, _WITH_TOKEN),
    (_WITH_TOKEN, _PLAIN),
    (_WITH_KEY, _PLAIN),
    (_WITH_LIMITS, _PLAIN),
)
"""Our gateways, and those of the peer beside them; it has no API keys."""


@dataclass(frozen=True, slots=True)
class _Gateway:
    """One that is measured."""

    destination: Destination
    pid: int
    stats_url: str = ""
    """What is read every second meanwhile; empty for nothing."""
    runs: dict[int, list["_Run"]] = field(default_factory=dict[int, list["_Run"]])
    """By the number of clients."""

    def get_figures(self, clients: int) -> "_Figures":
        """Medians of all runs."""
        runs = self.runs[clients]
        latencies = [each.load.get_latency() for each in runs]
        return _Figures(
            cpu=statistics.median(each.cpu_microseconds for each in runs),
            client_cpu=statistics.median(each.client_microseconds for each in runs),
            p50=statistics.median(each.p50 for each in latencies),
            p99=statistics.median(each.p99 for each in latencies),
        )


@dataclass(frozen=True, slots=True)
class _Figures:
    """CPU time per request in microseconds, and latencies in milliseconds."""

    cpu: float
    client_cpu: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class _Run:
    load: Load
    cpu_microseconds: float
    """Of the gateway, per request."""
    client_microseconds: float
    """Of the process of the benchmark, per request."""


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """All gateways run at the same time, and get load in turn."""
    return measure_in_temporary_folder(
        lambda folder: asyncio.run(_measure(folder, inputs, with_peer)), data
    )


async def _measure(folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    with run_model_servers(folder, 1, _MODEL) as [server]:
        async with run_issuer() as issuer, contextlib.AsyncExitStack() as stack:
            direct = _Gateway(Destination(url=server.grpc_url, model=_MODEL), server.process.pid)
            ours = await _start_ours(stack, server, issuer)
            peers = _start_peers(stack, folder, server, issuer) if with_peer else {}
            for _ in range(inputs.rounds):
                for clients in _CLIENTS:
                    for gateway in (direct, *peers.values(), *ours.values()):
                        run = await _measure_run(gateway, clients, inputs.load_seconds)
                        gateway.runs.setdefault(clients, []).append(run)
    return [row for clients in _CLIENTS for row in _build_rows(clients, direct, ours, peers)]


async def _start_ours(
    stack: contextlib.AsyncExitStack, server: ModelServer, issuer: Issuer
) -> dict[str, _Gateway]:
    provider = JwtProvider(
        name="bench", issuer=ISSUER, audiences=("inference",), jwks_uri=issuer.url
    )
    digest = hashlib.sha256(_API_KEY.encode()).hexdigest()
    kinds: dict[str, tuple[Auth | None, Limits, Mapping[str, str]]] = {
        _PLAIN: (None, Limits(), {}),
        _WITH_TOKEN: (Auth(jwt=(provider,)), Limits(), _build_token_header(issuer)),
        _WITH_KEY: (Auth(api_keys=ApiKeys(secret="keys")), Limits(), {"x-api-key": _API_KEY}),
        _WITH_LIMITS: (Auth(api_keys=ApiKeys(secret="keys")), _LIMITS, {"x-api-key": _API_KEY}),
    }
    gateways: dict[str, _Gateway] = {}
    for kind, (auth, limits, headers) in kinds.items():
        spec = build_spec(gateway=build_gateway(), auth=auth, limits=limits)
        secrets = GatewaySecrets(api_keys=(("bench", digest),))
        state = build_state([server.endpoint], secrets=secrets)
        gateway = await stack.enter_async_context(run_gateway(spec, state))
        url = f"grpc://127.0.0.1:{spec.gateway.grpc_port}"
        destination = Destination(url=url, model=_MODEL, headers=headers)
        stats_url = f"http://127.0.0.1:{gateway.stats_port}{STATS_PATH}"
        gateways[kind] = _Gateway(destination, gateway.process.pid, stats_url)
    return gateways


def _start_peers(
    stack: contextlib.AsyncExitStack, folder: Path, server: ModelServer, issuer: Issuer
) -> dict[str, _Gateway]:
    plain = stack.enter_context(run_supersonic_gateway(folder, [server.endpoint]))
    checked = stack.enter_context(run_supersonic_gateway(folder, [server.endpoint], issuer))
    token = _build_token_header(issuer)
    return {
        _PLAIN: _Gateway(Destination(url=plain.url, model=_MODEL), plain.process.pid),
        _WITH_TOKEN: _Gateway(
            Destination(url=checked.url, model=_MODEL, headers=token), checked.process.pid
        ),
    }


def _build_token_header(issuer: Issuer) -> dict[str, str]:
    return {"authorization": f"Bearer {issuer.sign(lifetime=3600)}"}


async def _measure_run(gateway: _Gateway, clients: int, seconds: float) -> _Run:
    async with _polling(gateway.stats_url):
        own, before = time.process_time(), read_cpu_seconds(gateway.pid)
        load = await send_clients(gateway.destination, clients, seconds)
        used, own = read_cpu_seconds(gateway.pid) - before, time.process_time() - own
    load.require_success()
    requests = load.result.requests
    return _Run(load, 1e6 * used / requests, 1e6 * own / requests)


@contextlib.asynccontextmanager
async def _polling(url: str) -> AsyncGenerator[None]:
    """Read statistics meanwhile, as the autoscaler does."""

    async def poll() -> None:
        while True:
            await asyncio.to_thread(fetch, url)
            await asyncio.sleep(_POLL_SECONDS)

    task = asyncio.ensure_future(poll()) if url else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


def _build_rows(
    clients: int,
    direct: _Gateway,
    ours: Mapping[str, _Gateway],
    peers: Mapping[str, _Gateway],
) -> list[Row]:
    title = f"gRPC, {clients} in flight"
    rows: list[Row] = []
    for kind, peer_kind in _COMPARED:
        what = f"{title}: {kind}" + ("" if peer_kind == kind else f" (peer: {peer_kind})")
        figures = ours[kind].get_figures(clients)
        peer = peers[peer_kind].get_figures(clients) if peers else None
        cpu = Quantity(f"{what}, CPU of the gateway", "µs", beats_peer=True)
        rows.append(Row(cpu, figures.cpu, peer and peer.cpu))
        if (kind, peer_kind) != (_WITH_TOKEN, _PLAIN):  # its latencies are those of the row before
            rows += [
                Row(Quantity(f"{what}, p50", "ms"), figures.p50, peer and peer.p50),
                Row(Quantity(f"{what}, p99", "ms"), figures.p99, peer and peer.p99),
            ]
    figures = direct.get_figures(clients)
    return [
        *rows,
        Row(Quantity(f"{title}: without a gateway, p50", "ms"), figures.p50),
        Row(Quantity(f"{title}: without a gateway, p99", "ms"), figures.p99),
        Row(Quantity(f"{title}: CPU of the load generator", "µs"), figures.client_cpu),
    ]
