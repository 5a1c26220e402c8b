"""How many pods the GPUs of a workload are in, as a table and as properties."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.kgwe import GPUWorkloadSpec
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec
from kilonova.gpu.controllers.gpuworkload.split import Split, choose_split, get_least_size


def spec_of(
    count: int,
    world_size: int | None = None,
    instances: int | None = None,
    bandwidth: float | None = None,
) -> GPUWorkloadSpec:
    requirements: Any = {"count": count, "minBandwidthGBps": bandwidth}
    if instances is not None:
        requirements = {"count": 1, "mig": {"profile": "1g.10gb", "count": instances}}
    config = {} if world_size is None else {"distributedConfig": {"worldSize": world_size}}
    return msgspec.convert({"gpuRequirements": requirements, **config}, GPUWorkloadSpec)


SPLITS: dict[str, tuple[GPUWorkloadSpec, int, Split]] = {
    "one GPU": (spec_of(1), 8, Split(1, 1, 1)),
    "a whole node": (spec_of(8), 8, Split(1, 8, 8)),
    "part of a node": (spec_of(5), 8, Split(1, 5, 5)),
    "two nodes": (spec_of(16), 8, Split(2, 8, 8)),
    "unequal to nodes": (spec_of(12), 8, Split(2, 6, 6)),
    "three of three": (spec_of(9), 8, Split(3, 3, 3)),
    "five of five": (spec_of(25), 8, Split(5, 5, 5)),
    "small nodes": (spec_of(8), 2, Split(4, 2, 2)),
    "single GPUs on nodes of one": (spec_of(7), 1, Split(7, 1, 1)),
    "a process for each GPU": (spec_of(16, 16), 8, Split(2, 8, 8)),
    "a process for each node": (spec_of(16, 2), 8, Split(2, 8, 1)),
    "a process for half a node": (spec_of(16, 4), 8, Split(4, 4, 1)),
    "fewer processes on one node": (spec_of(8, 4), 8, Split(1, 8, 4)),
    "more processes than GPUs": (spec_of(8, 16), 8, Split(1, 8, 16)),
    "more processes on two nodes": (spec_of(16, 32), 8, Split(2, 8, 16)),
    "a prime with a process for each": (spec_of(11, 11), 8, Split(11, 1, 1)),
    "bandwidth on a node": (spec_of(8, bandwidth=600), 8, Split(1, 8, 8)),
    "bandwidth on two nodes": (spec_of(16, bandwidth=600), 8, Split(2, 8, 8)),
    "bandwidth of a process for each": (spec_of(16, 16, bandwidth=600), 8, Split(2, 8, 8)),
    "bandwidth of pairs": (spec_of(8, 8, bandwidth=600), 2, Split(4, 2, 2)),
    "bandwidth of a single GPU": (spec_of(1, bandwidth=600), 8, Split(1, 1, 1)),
    "MIG instances": (spec_of(1, instances=60), 56, Split(2, 30, 30)),
}


@pytest.mark.parametrize(("spec", "largest", "expected"), SPLITS.values(), ids=SPLITS)
def test_gpus_are_split(spec: GPUWorkloadSpec, largest: int, expected: Split) -> None:
    assert choose_split(spec, lambda size: size <= largest) == expected


UNSPLITTABLE = {
    "a prime": (spec_of(11), 8, "use 10 or 12, or set spec.distributedConfig.worldSize to 11"),
    "a big prime": (spec_of(61), 8, "the largest node that the workload may use has 8; use 60 or"),
    "the largest": (spec_of(62), 8, "use 60 or 63"),
    "unequal shares": (spec_of(8, 3), 8, "3 processes cannot have equally many of 8 GPUs"),
    "processes bigger than a node": (
        spec_of(32, 2),
        8,
        "2 processes have 16 of 32 GPUs each, and no node that the workload may use has more than "
        "8: use a larger worldSize",
    ),
    "a bandwidth and a prime": (
        spec_of(11, bandwidth=600),
        8,
        "use 10 or 12, as minBandwidthGBps rules out pods of one GPU",
    ),
    "a bandwidth and a process for each": (
        spec_of(11, 11, bandwidth=600),
        8,
        "use 10 or 12, as minBandwidthGBps rules out pods of one GPU",
    ),
    "processes that do not match": (spec_of(16, 17), 8, "16 GPUs and 17 processes"),
}


@pytest.mark.parametrize(("spec", "largest", "words"), UNSPLITTABLE.values(), ids=UNSPLITTABLE)
def test_what_cannot_be_split_says_what_can(
    spec: GPUWorkloadSpec, largest: int, words: str
) -> None:
    with pytest.raises(InvalidSpec) as error:
        choose_split(spec, lambda size: size <= largest)
    assert words in str(error.value)
    assert error.value.reason == "UnsplittableCount"


def test_pods_of_one_gpu_are_not_kept_with_a_bandwidth() -> None:
    assert choose_split(spec_of(2, bandwidth=600), lambda size: size <= 2, 2).pods == 1


def test_existing_split_is_kept_while_it_fits() -> None:
    spec = spec_of(16)
    assert choose_split(spec, lambda size: size <= 16, 2).pods == 2
    assert choose_split(spec, lambda size: size <= 4, 2).pods == 4
    assert choose_split(spec, lambda size: size <= 16, 3).pods == 1


@given(
    count=st.integers(1, 64),
    world_size=st.none() | st.integers(1, 128),
    largest=st.integers(1, 16),
    bandwidth=st.none() | st.just(600.0),
)
def test_pods_are_equal_and_fit(
    count: int, world_size: int | None, largest: int, bandwidth: float | None
) -> None:
    spec = spec_of(count, world_size, bandwidth=bandwidth)
    try:
        split = choose_split(spec, lambda size: size <= largest)
    except InvalidSpec:
        assert count > largest or (world_size is not None and count % world_size)
    else:
        assert split.gpus > 1 or count == 1 or bandwidth is None
        assert split.pods * split.gpus == count
        assert split.gpus <= max(largest, get_least_size(spec))
        assert split.world_size == (world_size or count)
        assert split.pods == 1 or count > largest
