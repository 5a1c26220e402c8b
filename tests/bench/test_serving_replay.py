"""The replay of LLM requests: its servers, its peer, and what our autoscaler does in it."""

from pathlib import Path

import pytest

from bench.serving.replay import build_step, find_recovery, read_trace, replay, run_replay
from bench.serving.replay_scalers import HpaScaler, HpaSettings, OurScaler
from bench.serving.replay_servers import Arrival, Cluster, ServerModel
from kilonova.api.serving import Autoscaling, DemandTarget, SlaTarget

MODEL = ServerModel(startup_seconds=5.0)


class Fixed:
    """As many servers as it is told."""

    interval = 1.0

    def __init__(self, servers: int) -> None:
        self._servers = servers

    def decide(self, cluster: Cluster) -> int:
        return self._servers


def test_single_request_takes_its_prefill_and_its_steps() -> None:
    outcome = replay([Arrival(0.0, prompt=4000, tokens=11)], MODEL, Fixed(1))
    assert outcome.first_token == [pytest.approx(4000 / 8000, abs=0.03)]
    assert outcome.latency == [pytest.approx(0.5 + 10 * 0.0204, abs=0.05)]


def test_requests_are_held_until_a_server_has_started() -> None:
    cluster = Cluster(MODEL, servers=0)
    cluster.arrive(Arrival(0.0, prompt=800, tokens=1))
    cluster.scale(1)
    cluster.run_until(4.9)
    assert len(cluster.held) == 1
    cluster.run_until(10.0)
    assert cluster.finish().first_token == [pytest.approx(5.1, abs=0.05)]


def test_every_request_is_answered_whatever_the_scaler_does() -> None:
    arrivals = build_step()
    ours = replay(arrivals, MODEL, OurScaler(Autoscaling(max_replicas=8)))
    assert len(ours.latency) == len(ours.first_token) == len(arrivals)


def test_draining_server_finishes_its_requests_and_is_paid_until_then() -> None:
    cluster = Cluster(MODEL, servers=2)
    for _ in range(2):
        cluster.arrive(Arrival(0.0, prompt=8000, tokens=1))
    cluster.scale(1)
    cluster.run_until(10.0)
    outcome = cluster.finish()
    assert len(outcome.latency) == 2
    assert outcome.server_seconds == pytest.approx(11.0, abs=0.1)


@pytest.mark.parametrize(
    ("servers", "in_flight", "wanted"),
    # ceil(value / threshold), unless it is within 10 %; at most 4 more, or twice as many.
    [(1, 10, 1), (2, 21, 2), (1, 12, 2), (2, 90, 6), (8, 300, 16), (2, 5, 2)],
)
def test_peer_follows_the_algorithm_of_the_autoscaler(
    servers: int, in_flight: int, wanted: int
) -> None:
    cluster = Cluster(MODEL, servers)
    for _ in range(in_flight):
        cluster.arrive(Arrival(0.0, prompt=100, tokens=10))
    scaler = HpaScaler(HpaSettings(threshold=10.0))
    # What was wanted before: on the way down the highest number of the last 300 s counts.
    scaler._recommendations.append((0.0, servers))
    assert scaler.decide(cluster) == wanted


@pytest.mark.parametrize(
    "scaling",
    [
        Autoscaling(max_replicas=32),
        Autoscaling(max_replicas=32, sla=SlaTarget(time_to_first_token="1s")),
        Autoscaling(
            max_replicas=32, demand=DemandTarget(), sla=SlaTarget(time_to_first_token="1s")
        ),
    ],
)
def test_six_times_the_load_is_served_in_time_again_within_15_seconds(
    scaling: Autoscaling,
) -> None:
    outcome = replay(build_step(), ServerModel(startup_seconds=3.0), OurScaler(scaling))
    assert find_recovery(outcome) < 15


def test_sla_mode_does_not_oscillate_after_a_step() -> None:
    numbers: list[int] = []

    class Recorder(OurScaler):
        def decide(self, cluster: Cluster) -> int:
            numbers.append(super().decide(cluster))
            return numbers[-1]

    scaling = Autoscaling(max_replicas=32, sla=SlaTarget(time_to_first_token="1s"))
    replay(build_step(), ServerModel(startup_seconds=10.0), Recorder(scaling))
    after = numbers[150:400]
    assert max(numbers) <= 10
    assert max(after) - min(after) <= 2


def test_rows_of_a_small_trace(tmp_path: Path) -> None:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for index, arrival in enumerate(build_step()):
        minutes, seconds = divmod(arrival.at, 60)
        lines.append(f"2023-11-16 18:{int(minutes):02}:{seconds:010.7f},{900 + index % 400},40")
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(lines))
    assert len(read_trace(trace)) == len(lines) - 1
    rows = run_replay(quick=True, trace=trace)
    assert len(rows) == 2
    assert all(row.ours > 0 and row.peer for row in rows)
