"""The command line of this benchmark."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.comparison import (
    BenchmarkInfo,
    DataFolder,
    JsonFile,
    PositiveInt,
    Quick,
    WithPeer,
    apply_options,
    run_benchmark,
)
from bench.report import Row
from bench.serving import cold, kill, proxy, rest, server, step
from bench.serving.inputs import QUICK, Inputs
from bench.serving.replay import run_replay
from tools.realparts.part import PartUnavailable
from tools.realparts.parts.peers import KSERVE, RAY_SERVE

_INFO = BenchmarkInfo(
    "serving",
    "peer",
    (
        "The peer of gateways is the same Envoy with the configuration of SuperSONIC's chart; of "
        "the replay, KEDA and a HorizontalPodAutoscaler in the same simulation. All Envoys have "
        "one worker thread. CPU time and latency are medians of runs in turn with the peer.",
    ),
)


class Family(StrEnum):
    """A family of rows."""

    PROXY = "proxy"
    KILL = "kill"
    STEP = "step"
    COLD = "cold"
    SERVER = "server"
    REPLAY = "replay"
    REST = "rest"


def serving(
    json: JsonFile = None,
    only: Annotated[
        list[Family] | None, typer.Option(help="Measure only this family; repeatable.")
    ] = None,
    with_peer: WithPeer = True,
    data: DataFolder = None,
    quick: Quick = False,
    rounds: PositiveInt = None,
    load_seconds: PositiveInt = None,
    kill_seconds: PositiveInt = None,
    server_seconds: PositiveInt = None,
    step_seconds: PositiveInt = None,
    held_requests: PositiveInt = None,
    settle_seconds: PositiveInt = None,
    idle_seconds: PositiveInt = None,
) -> None:
    """Inference services: gateway, lost servers, steps of load, starts from zero, model server,
    autoscaler."""
    given = {
        "rounds": rounds,
        "load_seconds": load_seconds,
        "kill_seconds": kill_seconds,
        "server_seconds": server_seconds,
        "step_seconds": step_seconds,
        "held_requests": held_requests,
        "settle_seconds": settle_seconds,
        "idle_seconds": idle_seconds,
    }
    inputs = apply_options(QUICK if quick else Inputs(), given)
    families = only or list(Family)

    def measure(progress: Console) -> list[Row]:
        if with_peer and Family.SERVER in families:
            _get_peers(progress)
        rows: list[Row] = []
        for family in families:
            progress.print(f"measuring {family} …")
            rows += measure_family(family, inputs, with_peer, data)
        return rows

    run_benchmark(_INFO, inputs, False, measure, json)


def measure_family(family: Family, inputs: Inputs, with_peer: bool, data: Path | None) -> list[Row]:
    """The rows of one family."""
    match family:
        case Family.PROXY:
            return proxy.measure(inputs, with_peer, data)
        case Family.KILL:
            return kill.measure(inputs, with_peer, data)
        case Family.STEP:
            return step.measure(inputs, with_peer, data)
        case Family.COLD:
            return cold.measure(inputs, with_peer, data)
        case Family.SERVER:
            return server.measure(inputs, with_peer, data)
        case Family.REPLAY:
            return run_replay(inputs.is_quick)
        case Family.REST:
            return rest.measure(inputs, data)


def _get_peers(progress: Console) -> None:
    """Get the servers to compare with before anything is measured."""
    for part in (KSERVE, RAY_SERVE):
        if part.find() is not None:
            continue
        progress.print(f"getting {part.name} {part.version}, once; without it: --no-peer …")
        try:
            part.get()
        except PartUnavailable as failure:
            raise RuntimeError(f"{part.name}: {failure}; or run with --no-peer") from failure
