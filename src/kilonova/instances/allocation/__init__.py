"""Allocation strategies: which constraints the scheduler gets for an instance.

A strategy never names a node to use: the scheduler alone places. It is called once for each
allocation of an instance, and what it returns is kept with the allocation. `strategies` has those
that are built in; a package adds one under the entry-point group `kilonova.allocation`:

    [project.entry-points."kilonova.allocation"]
    green-power = "our_package:green_power"

    def green_power(request: AllocationRequest) -> AllocationConstraints: ...
"""

from kilonova.instances.allocation.strategy import (
    GROUP,
    AllocationConstraints,
    AllocationRequest,
    AllocationStrategy,
    NodePreference,
)

__all__ = [
    "GROUP",
    "AllocationConstraints",
    "AllocationRequest",
    "AllocationStrategy",
    "NodePreference",
]
