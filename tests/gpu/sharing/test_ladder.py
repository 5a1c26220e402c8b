"""The ladder: which rung, and why."""

import pytest

from kilonova.gpu.sharing.ladder import (
    Isolation,
    Rung,
    SharingDevice,
    SharingPolicy,
    SharingRequest,
    choose_rung,
)
from tests.catalog.mig_states import part

H100 = SharingDevice(81_559, part("H100-80GB"), (9, 0))
SLICED = SharingDevice(81_559, part("H100-80GB"), (9, 0), mig_enabled=True, mig_mask=0b11110000)
SHARED = SharingDevice(81_559, part("H100-80GB"), (9, 0), is_shared=True, mps_threads_left=50)
L40S = SharingDevice(46_068, None, (8, 9))
PASCAL = SharingDevice(16_384, None, (6, 0))
GIB = 1024


@pytest.mark.parametrize(
    ("request_", "device", "rung", "reason"),
    [
        # By size.
        (SharingRequest(80 * GIB, 1.0), L40S, None, "exceed the device's 46068 MiB"),
        (SharingRequest(60 * GIB, 0.9), H100, Rung.EXCLUSIVE, "more than half of the device"),
        (SharingRequest(9 * GIB, 0.1), H100, Rung.MIG, "1g.10gb is the smallest that fits"),
        (SharingRequest(10 * GIB, 0.1), H100, Rung.MIG, "1g.10gb is the smallest that fits"),
        (SharingRequest(10 * GIB, 0.19), H100, Rung.MIG, "1g.20gb is the smallest that fits"),
        (SharingRequest(19 * GIB, 0.24), H100, Rung.MIG, "2g.20gb is the smallest that fits"),
        (SharingRequest(30 * GIB, 0.4), H100, Rung.MIG, "3g.40gb is the smallest that fits"),
        # Little memory and much compute would leave a MIG instance idle.
        (SharingRequest(2 * GIB, 0.05), H100, Rung.MPS, "5 % of the threads and 2048 MiB"),
        # By isolation.
        (SharingRequest(2 * GIB, 0.05, Isolation.FULL), H100, Rung.MIG, "1g.10gb"),
        (SharingRequest(45 * GIB, 0.3, Isolation.FULL), H100, Rung.EXCLUSIVE, "full isolation"),
        (SharingRequest(10 * GIB, 0.2, Isolation.FULL), L40S, Rung.EXCLUSIVE, "full isolation"),
        (SharingRequest(10 * GIB, 0.2, Isolation.FULL), SHARED, None, "share errors"),
        (SharingRequest(4 * GIB, 0.2, Isolation.MEMORY), L40S, Rung.MPS, "20 % of the threads"),
        (SharingRequest(4 * GIB, 0.2, Isolation.MEMORY), PASCAL, None, "Memory isolation"),
        # By what the device can do now.
        (SharingRequest(4 * GIB, 0.2), PASCAL, Rung.TIME_SLICE, "processes take turns"),
        (SharingRequest(4 * GIB, 0.2), SHARED, Rung.MPS, "20 % of the threads"),
        (SharingRequest(4 * GIB, 0.6), SHARED, Rung.TIME_SLICE, "processes take turns"),
        (SharingRequest(38 * GIB, 0.4), SLICED, Rung.MIG, "3g.40gb"),
        (SharingRequest(38 * GIB, 0.6), SLICED, None, "no free slices for 38912 MiB and 60%"),
        # By name and preference.
        (SharingRequest(1, profile="2g.20gb"), H100, Rung.MIG, "2g.20gb is requested"),
        (SharingRequest(1, profile="4g.40gb"), SLICED, Rung.MIG, "4g.40gb is requested"),
        (SharingRequest(1, profile="7g.80gb"), SLICED, None, "no free slices for 7g.80gb"),
        (SharingRequest(1, preferred=Rung.EXCLUSIVE), H100, Rung.EXCLUSIVE, "is requested"),
        (SharingRequest(9 * GIB, 0.1, preferred=Rung.MPS), H100, Rung.MPS, "10 %"),
        (SharingRequest(1, preferred=Rung.TIME_SLICE), H100, Rung.TIME_SLICE, "turns"),
        (SharingRequest(1, preferred=Rung.MIG), H100, Rung.MIG, "1g.10gb"),
    ],
)
def test_rung_and_reason(
    request_: SharingRequest, device: SharingDevice, rung: Rung | None, reason: str
) -> None:
    choice = choose_rung(request_, device)
    assert choice.rung is rung, choice
    assert reason in choice.reason


def test_rungs_above_are_explained() -> None:
    choice = choose_rung(SharingRequest(2 * GIB, 0.05), H100)
    assert [(each.rung, each.reason) for each in choice.rejected] == [
        (Rung.EXCLUSIVE, "less than the device is requested"),
        (Rung.MIG, "1g.10gb would be unused by 60%"),
    ]


def test_policy_for_a_workload_type_comes_first() -> None:
    policy = SharingPolicy({"Inference": Rung.MPS})
    request = SharingRequest(9 * GIB, 0.1, workload_type="Inference", preferred=Rung.MIG)
    assert choose_rung(request, H100, policy).rung is Rung.MPS
    assert choose_rung(request, H100).rung is Rung.MIG
