"""Random streams of requests for MIG profiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from kilonova.catalog.mig import MigGeometry, geometry_named

MIXES: Mapping[str, Mapping[str, float]] = {
    "equal": {
        "1g.10gb": 1.0,
        "1g.20gb": 1.0,
        "2g.20gb": 1.0,
        "3g.40gb": 1.0,
        "4g.40gb": 1.0,
        "7g.80gb": 1.0,
    },
    "inference": {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1},
    "mixed": {"1g.10gb": 0.4, "1g.20gb": 0.1, "2g.20gb": 0.2, "3g.40gb": 0.2, "4g.40gb": 0.1},
    "large": {"1g.10gb": 0.3, "2g.20gb": 0.2, "3g.40gb": 0.2, "4g.40gb": 0.2, "7g.80gb": 0.1},
}
"""Frequencies of profiles; `inference` is KGWE's stock strategy."""
LOADS = (0.7, 1.0, 1.3)
"""Requested memory slices on average, as a part of those that there are."""


@dataclass(frozen=True, slots=True)
class InstanceRequest:
    """An instance that is wanted from a time on, until another."""

    arrival: float
    departure: float
    profile: str


def h100() -> MigGeometry:
    """The geometry of all GPUs."""
    geometry = geometry_named("H100-80GB")
    if geometry is None:
        raise RuntimeError("the catalog has no geometry H100-80GB")
    return geometry


def generate_stream(
    seed: int, mix: Mapping[str, float], gpus: int, load: float, count: int
) -> Sequence[InstanceRequest]:
    """Arrivals with exponential intervals, of instances that live 1 on average."""
    random = Random(seed)
    geometry = h100()
    names, weights = list(mix), list(mix.values())
    slices = {each.name: each.slices for each in geometry.profiles}
    mean = sum(slices[name] * weight for name, weight in mix.items()) / sum(weights)
    rate = load * 8 * gpus / mean
    now = 0.0
    stream: list[InstanceRequest] = []
    for _ in range(count):
        now += random.expovariate(rate)
        (name,) = random.choices(names, weights)
        stream.append(InstanceRequest(now, now + random.expovariate(1), name))
    return stream


def all_streams(gpus: int, count: int, streams: int) -> Iterator[Sequence[InstanceRequest]]:
    """So many streams of each mix and load."""
    for mix in MIXES.values():
        for load in LOADS:
            for seed in range(streams):
                yield generate_stream(seed, mix, gpus, load, count)
