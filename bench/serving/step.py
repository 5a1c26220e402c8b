"""Six times as many requests from one moment to the next: until latency is back at its target."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.comparison import measure_in_temporary_folder
from bench.report import Quantity, Row
from bench.serving.inputs import Inputs
from bench.serving.load import send_rate
from bench.serving.service import NAME, build_destination, build_service
from kilonova.serving.loadtest.profile import LoadProfile, Phase
from kilonova.serving.loadtest.recorder import Sample
from tests.serving.service_on_this_machine import serving_machine

_RATES = (12.0, 72.0)
"""Requests per second: a server of four instances that take 100 ms each answers 40."""
_SECONDS_BEFORE = 10.0
_AUTOSCALING = {"maxReplicas": 6, "demand": {"inFlightPerReplica": 4}}
_LATENCY_SECONDS = 0.25
_SHARE_IN_TIME = 0.95
_TARGET_SECONDS = 15
_PUBLISHED_SECONDS = 330.0
"""Read off the picture in SuperSONIC's documentation: 1 to 6 servers, one each minute."""


def measure(inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """An open loop: requests arrive, whatever the answers are."""
    return measure_in_temporary_folder(lambda folder: _measure(folder, inputs, with_peer), data)


def _measure(folder: Path, inputs: Inputs, with_peer: bool) -> list[Row]:
    with serving_machine(folder) as machine:
        machine.create(build_service(_AUTOSCALING, "time=100ms", "instances=4"))
        status = machine.wait_for(NAME, lambda each: each.get("phase") == "Ready")
        profile = LoadProfile(
            (
                Phase(_SECONDS_BEFORE, _RATES[0], _RATES[0]),
                Phase(inputs.step_seconds, _RATES[1], _RATES[1]),
            )
        )
        load = asyncio.run(send_rate(build_destination(status), profile))
        servers = machine.get_status(NAME)["servers"][0]["ready"]
    latency = f"{1e3 * _LATENCY_SECONDS:g} ms"
    quantity = Quantity(
        f"6× step: latency back under {latency} after (peer: published, not of this run)",
        "s",
        target=_TARGET_SECONDS,
    )
    return [
        Row(quantity, find_recovery(load.samples), _PUBLISHED_SECONDS if with_peer else None),
        Row(Quantity("6× step: failed requests", "", target=0), load.result.failed),
        Row(Quantity("6× step: servers at its end", "", "more"), servers),
    ]


def find_recovery(samples: Iterable[Sample]) -> float:
    """Seconds from the step until the requests of each second are in time again; infinite if those
    of the last one are not."""
    seconds: dict[int, list[bool]] = defaultdict(list)
    for each in samples:
        if each.start >= _SECONDS_BEFORE:
            is_in_time = each.is_ok and each.latency <= _LATENCY_SECONDS
            seconds[int(each.start - _SECONDS_BEFORE)].append(is_in_time)
    late = [second for second, each in seconds.items() if not _are_enough(each)]
    if not late:
        return 0.0
    return float("inf") if max(late) == max(seconds) else max(late) + 1


def _are_enough(in_time: Sequence[bool]) -> bool:
    return sum(in_time) >= _SHARE_IN_TIME * len(in_time)
