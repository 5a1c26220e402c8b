"""`kill -9` of one of two servers under load: requests that fail.

The servers are not started again, and nothing informs the gateway: it finds out by itself.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from bench.comparison import compare_with_peer
from bench.report import Measurements, Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.model_servers import run_model_servers
from bench.serving.peers.supersonic import run_supersonic_gateway
from kilonova.serving.gateway.model import Endpoint
from kilonova.serving.loadtest.targets.address import parse_address
from kilonova.serving.loadtest.targets.options import TargetOptions
from kilonova.serving.loadtest.targets.v2_grpc import build_v2_grpc_target
from tests.serving.gateway.support.envoy_gateway import run_gateway
from tests.serving.gateway.support.services import build_gateway, build_spec, build_state

_MODEL = "slow"
_OPTIONS = f"{_MODEL},time=10ms,instances=16"
_SECONDS_BEFORE = 2.0

FAILED = Quantity("kill -9 of one of two servers: failed requests", "", target=0)
ANSWERED = Quantity("kill -9 of one of two servers: requests answered", "", "more")


class _StartGateway(Protocol):
    """Starts a gateway of some servers; the context has its URL."""

    def __call__(
        self, folder: Path, endpoints: Sequence[Endpoint]
    ) -> AbstractAsyncContextManager[str]: ...


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """Clients that send their next request as soon as the last one is answered, or has failed."""

    def build(start: _StartGateway) -> Callable[[Path], Measurements]:
        return lambda folder: asyncio.run(_measure(folder, inputs, start))

    return compare_with_peer(build(_start_ours), build(_start_peer) if with_peer else None, data)


async def _measure(folder: Path, inputs: Inputs, start: _StartGateway) -> Measurements:
    with run_model_servers(folder, 2, _OPTIONS) as servers:
        async with start(folder, [each.endpoint for each in servers]) as url:
            load = asyncio.ensure_future(_send(url, inputs))
            await asyncio.sleep(_SECONDS_BEFORE)
            servers[0].process.send_signal(signal.SIGKILL)
            answers = await load
    failed = sum(count for is_ok, count in answers.items() if not is_ok)
    return {FAILED: failed, ANSWERED: answers[True]}


async def _send(url: str, inputs: Inputs) -> Counter[bool]:
    """How many requests succeeded (True) and failed. The clients of the load tester would wait
    after a failure."""
    target = await build_v2_grpc_target(parse_address(url), TargetOptions(model=_MODEL))
    clock = asyncio.get_running_loop().time
    end = clock() + _SECONDS_BEFORE + inputs.kill_seconds
    answers: Counter[bool] = Counter()

    async def run_client() -> None:
        while clock() < end:
            outcome = await target.send()
            answers[outcome.is_ok] += 1

    try:
        async with asyncio.TaskGroup() as clients:
            for _ in range(inputs.kill_clients):
                clients.create_task(run_client())
    finally:
        await target.close()
    return answers


@asynccontextmanager
async def _start_ours(folder: Path, endpoints: Sequence[Endpoint]) -> AsyncGenerator[str]:
    spec = build_spec(gateway=build_gateway())
    async with run_gateway(spec, build_state(list(endpoints))):
        yield f"grpc://127.0.0.1:{spec.gateway.grpc_port}"


@asynccontextmanager
async def _start_peer(folder: Path, endpoints: Sequence[Endpoint]) -> AsyncGenerator[str]:
    with run_supersonic_gateway(folder, endpoints) as gateway:
        yield gateway.url
