"""Shares: two sums, both admitted; and what clients are told."""

import pytest

from kilonova.gpu.sharing.shares import (
    MpsCapacity,
    MpsShare,
    admit_share,
    client_environment,
    share_of_assignment,
)

DEVICE = MpsCapacity(80_000)


@pytest.mark.parametrize(
    ("others", "share", "capacity", "why"),
    [
        ([], (100, 80_000), DEVICE, ""),
        ([(50, 40_000)], (50, 40_000), DEVICE, ""),
        ([(50, 20_000)], (60, 20_000), DEVICE, "threads: 110 % would be assigned, of 100 %"),
        ([(20, 50_000)], (20, 40_000), DEVICE, "memory: 90000 MiB would be assigned, of 80000 MiB"),
        ([(50, 1_000)], (60, 1_000), MpsCapacity(80_000, threads_burst=1.5), ""),
        ([(100, 1)], (60, 1), MpsCapacity(80_000, threads_burst=1.5), "(burst ratio 1.5)"),
        ([(1, 50_000)], (1, 40_000), MpsCapacity(80_000, memory_burst=1.2), ""),
        # Thousandths are rounded up: three of 333 are 34 % each.
        ([(34, 1), (34, 1)], (34, 1), DEVICE, ""),
        ([(34, 1), (34, 1)], (36, 1), DEVICE, "threads: 104 %"),
    ],
)
def test_both_sums_are_admitted(
    others: list[tuple[int, int]], share: tuple[int, int], capacity: MpsCapacity, why: str
) -> None:
    found = admit_share(MpsShare(*share), [MpsShare(*each) for each in others], capacity)
    assert why in found
    assert bool(why) is bool(found)


def test_clients_of_a_server_are_limited() -> None:
    many = MpsShare(10, 1_000, processes=40)
    assert admit_share(many, [], DEVICE) == ""
    assert "clients: 80 processes, of 48" in admit_share(many, [many], DEVICE)


def test_share_of_several_processes_is_divided() -> None:
    """The driver limits each process, and a pod must not get its share several times."""
    share = share_of_assignment(500, 250, 80_000, processes=4)
    assert share == MpsShare(50, 20_000, 4)
    assert client_environment(share, "/pipe") == {
        "CUDA_MPS_PIPE_DIRECTORY": "/pipe",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "12",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5000M",
    }


@pytest.mark.parametrize(
    ("share", "field"), [((0, 1), "threads_percent 0"), ((101, 1), "101"), ((1, 0), "memory_mib 0")]
)
def test_impossible_share_is_an_error(share: tuple[int, int], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        MpsShare(*share)
