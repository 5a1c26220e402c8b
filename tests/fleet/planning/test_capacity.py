"""How many more instances may be promised in a cluster."""

import pytest

from kilonova.api.fleet import AcceleratorCount
from kilonova.fleet.documents import Observed, ObservedDeployment
from kilonova.fleet.planning.capacity import Capacity, Footprint

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
KEY = ("default", "chat")
OTHER = ("default", "batch")


def count(
    footprint: Footprint, free: int, additional: int, booked: int = 0, others: int = 0
) -> int:
    capacity = Capacity()
    accelerators = (AcceleratorCount(footprint.resource, 100, free),)
    capacity.add_cluster("a", Observed(cluster="a", sequence=1, accelerators=accelerators))
    capacity.add_booking("a", KEY, footprint, booked)
    capacity.add_booking("a", OTHER, footprint, others)
    observed = ObservedDeployment(namespace="default", name="chat", additional_replicas=additional)
    return capacity.count_additional("a", KEY, footprint, observed)


@pytest.mark.parametrize(
    ("free", "additional", "booked", "others", "expected"),
    [
        (32, 2, 0, 0, 2),
        (8, 3, 0, 0, 0),  # what fits was computed before instances were placed
        (40, 3, 0, 0, 2),
        (48, 3, 1, 0, 2),
        (48, 3, 1, 1, 1),
        (48, 1, 0, 0, 1),
    ],
)
def test_instances_fit_in_what_is_free_and_not_booked(
    free: int, additional: int, booked: int, others: int, expected: int
) -> None:
    assert count(Footprint(GPU, 16), free, additional, booked, others) == expected


@pytest.mark.parametrize("booked", [0, 1])
@pytest.mark.parametrize("footprint", [Footprint(MIG, 2), Footprint(GPU, 0)])
def test_what_is_free_says_nothing_about_some_instances(footprint: Footprint, booked: int) -> None:
    """MIG instances are made when they are needed; engines may have no accelerators."""
    assert count(footprint, free=0, additional=3, booked=booked) == 3 - booked
