"""How many requests of random streams each policy serves."""

import heapq
from collections.abc import Callable, Iterable, Sequence

from bench.gpu.inputs import Inputs
from bench.gpu.optimum import count_most_served
from bench.gpu.policies import InstancePolicy, SchedulerPlacement, first_fit, fixed_order
from bench.gpu.streams import InstanceRequest, all_streams, h100
from bench.report import Quantity, Row

_SINGLE_GPU_STREAMS = 4


def count_served(
    policy: InstancePolicy, stream: Sequence[InstanceRequest], gpus: int
) -> tuple[int, float]:
    """The number of served requests, and the memory slices × time that they had."""
    profiles = {each.name: each for each in h100().profiles}
    masks = [0] * gpus
    departures: list[tuple[float, int, int]] = []
    served, volume = 0, 0.0
    for request in stream:
        while departures and departures[0][0] <= request.arrival:
            _, gpu, taken = heapq.heappop(departures)
            masks[gpu] ^= taken
        place = policy.place(masks, request.profile)
        if place is None:
            continue
        gpu, start = place
        profile = profiles[request.profile]
        taken = profile.mask_at(start)
        if masks[gpu] & taken:
            raise RuntimeError(f"{request.profile}@{start} overlaps another instance")
        masks[gpu] |= taken
        heapq.heappush(departures, (request.departure, gpu, taken))
        served += 1
        volume += profile.slices * (request.departure - request.arrival)
    return served, volume


def measure(inputs: Inputs) -> list[Row]:
    """Served requests and slice time of one GPU and of a fleet, and the optimum of one GPU."""
    rows: list[Row] = []
    for gpus, streams in (
        (1, _SINGLE_GPU_STREAMS * inputs.streams),
        (inputs.fleet, inputs.streams),
    ):
        name = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        count = inputs.requests * gpus

        def total(
            build: Callable[[], InstancePolicy],
            gpus: int = gpus,
            count: int = count,
            n: int = streams,
        ) -> tuple[int, float]:
            return _total(build, all_streams(gpus, count, n), gpus)

        ours = total(lambda gpus=gpus: SchedulerPlacement(gpus))
        for peer, build in (("first fit", first_fit), ("a fixed order", fixed_order)):
            theirs = total(build)
            served = Quantity(
                f"requests served, {name}, {peer} beside", "", "more", beats_peer=True
            )
            volume = Quantity(
                f"memory slices × time, {name}, {peer} beside", "", "more", beats_peer=True
            )
            rows.append(Row(served, ours[0], theirs[0]))
            rows.append(Row(volume, ours[1], theirs[1]))
    return [*rows, *_measure_optimum(inputs)]


def _measure_optimum(inputs: Inputs) -> list[Row]:
    streams = list(all_streams(1, inputs.optimum_requests, inputs.optimum_streams))
    optimum = sum(count_most_served(stream) for stream in streams)
    rows: list[Row] = []
    for name, build in (
        ("ours", lambda: SchedulerPlacement(1)),
        ("first fit", first_fit),
        ("a fixed order", fixed_order),
    ):
        served, _ = _total(build, streams, 1)
        title = f"short streams, 1 GPU: {name}, the optimum that knows them beside"
        rows.append(Row(Quantity(title, "", "more"), served, optimum))
    return rows


def _total(
    build: Callable[[], InstancePolicy], streams: Iterable[Sequence[InstanceRequest]], gpus: int
) -> tuple[int, float]:
    served, volume = 0, 0.0
    for stream in streams:
        more, further = count_served(build(), stream, gpus)
        served += more
        volume += further
    return served, volume
