"""A service without servers: requests that arrive are held, and answered by the first server."""

import asyncio
from pathlib import Path

from bench.comparison import measure_in_temporary_folder
from bench.report import Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.load import Destination, Load, send_clients
from bench.serving.peers.supersonic import run_supersonic_gateway
from bench.serving.service import build_destination, build_service
from tests.serving.gateway.support.clients import open_channel, try_call
from tests.serving.service_on_this_machine import ServingMachine, serving_machine

_AUTOSCALING = {"minReplicas": 0, "maxReplicas": 1, "scaleToZero": {"idleAfter": "1s"}}
_MOST_SECONDS = 60.0


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """One request, and many at the same time."""
    return measure_in_temporary_folder(lambda folder: _measure(folder, inputs, with_peer), data)


def _measure(folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    with serving_machine(folder) as machine:
        machine.create(build_service(_AUTOSCALING, "time=10ms", "instances=16"))
        one = _send_at_zero(machine, 1)
        many = _send_at_zero(machine, inputs.held_requests)
    count = inputs.held_requests
    answered = Quantity(f"no server, {count} requests: answered", "", "more", target=count)
    refused = asyncio.run(_measure_peer(folder, count)) if with_peer else None
    return [
        Row(Quantity("no server, 1 request: answered after", "s"), _get_first(one)),
        Row(answered, many.result.succeeded, refused),
        Row(Quantity(f"no server, {count} requests: first answer after", "s"), _get_first(many)),
        Row(
            Quantity(f"no server, {count} requests: last answer after", "s"),
            max(each.latency for each in many.samples),
        ),
    ]


def _send_at_zero(machine: ServingMachine, requests: int) -> Load:
    """Send requests once the service has no server."""
    status = machine.wait_for(
        "bench", lambda each: each.get("phase") == "Idle" and not each["replicas"]
    )
    return asyncio.run(_send(build_destination(status), requests))


async def _send(destination: Destination, requests: int) -> Load:
    return await send_clients(destination, requests, _MOST_SECONDS, requests)


def _get_first(load: Load) -> float:
    answered = [each.latency for each in load.samples if each.is_ok]
    if not answered:
        raise RuntimeError(f"no request was answered: {load.result.failures}")
    return min(answered)


async def _measure_peer(folder: Path, count: int) -> int:
    """The requests that Envoy answers with the configuration of SuperSONIC and no server."""
    with run_supersonic_gateway(folder, []) as gateway:
        async with open_channel(gateway.port) as channel:
            answers = await asyncio.gather(*(try_call(channel) for _ in range(count)))
    return sum(status.name == "OK" for status, _ in answers)
