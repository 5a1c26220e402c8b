"""How many more instances fit in each cluster, less what was decided and is not yet observed.

A cluster reports for each deployment how many more of its instances fit. Two deployments must not
be promised the same accelerators: an instance that is desired is **booked** until its cluster
reports it as placed, and bookings reduce what fits, of the same deployment and of all others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.api.inference_engine import DEFAULT_ACCELERATOR, EngineSpec
from kilonova.catalog.resource_names import MIG_PREFIX
from kilonova.fleet.documents import Observed, ObservedDeployment
from kilonova.fleet.planning.model import ObjectKey


@dataclass(frozen=True, slots=True)
class Footprint:
    """The accelerators of one instance; None if only its build knows."""

    resource: str = DEFAULT_ACCELERATOR
    amount: int | None = None


def measure(spec: EngineSpec) -> Footprint:
    """The accelerators of an instance of a release."""
    accelerator = spec.accelerator
    resource = (accelerator.resource if accelerator else "") or DEFAULT_ACCELERATOR
    count = accelerator.count if accelerator else None
    if spec.target_agents is None or (count is None and spec.build):
        return Footprint(resource)
    return Footprint(resource, spec.target_agents * (1 if count is None else count))


@dataclass(slots=True)
class _Bookings:
    """What is booked in one cluster."""

    free: Mapping[str, int]
    by_deployment: dict[ObjectKey, int] = field(default_factory=dict[ObjectKey, int])
    accelerators: dict[str, int] = field(default_factory=dict[str, int])
    unknown: int = 0
    """Instances whose accelerators are not known."""


class Capacity:
    """What fits, cluster by cluster. Bookings of a pass count for the deployments after it."""

    def __init__(self) -> None:
        self._bookings: dict[str, _Bookings] = {}

    def add_cluster(self, name: str, observed: Observed) -> None:
        """Begin with what a cluster reports as free."""
        self._bookings[name] = _Bookings(
            {each.resource: each.free for each in observed.accelerators}
        )

    def add_booking(
        self, cluster: str, key: ObjectKey, footprint: Footprint, instances: int
    ) -> None:
        """Count instances that have no accelerators yet."""
        found = self._bookings.get(cluster)
        if found is None or not instances:
            return
        found.by_deployment[key] = found.by_deployment.get(key, 0) + instances
        if footprint.amount is None:
            found.unknown += instances
            return
        booked = found.accelerators.get(footprint.resource, 0)
        found.accelerators[footprint.resource] = booked + instances * footprint.amount

    def count_additional(
        self, cluster: str, key: ObjectKey, footprint: Footprint, observed: ObservedDeployment
    ) -> int:
        """How many more instances may be placed in a cluster."""
        found, reported = self._bookings.get(cluster), observed.additional_replicas
        if found is None or reported is None:
            return 0
        own = found.by_deployment.get(key, 0)
        left = reported - own
        if left <= 0:
            return 0
        if footprint.amount is None:
            # How much the others take of what fits is not known before they are placed.
            return left if own == sum(found.by_deployment.values()) else 0
        if found.unknown:
            return 0
        booked = found.accelerators.get(footprint.resource, 0)
        amount = max(footprint.amount, 1)
        others = booked - own * footprint.amount
        left -= -(-others // amount)
        # What fits was computed some seconds before what is free.
        if _is_counted(footprint) and footprint.resource in found.free:
            left = min(left, (found.free[footprint.resource] - booked) // amount)
        return max(left, 0)


def _is_counted(footprint: Footprint) -> bool:
    """Whether what is free limits instances: MIG instances are made when they are needed."""
    return bool(footprint.amount) and not footprint.resource.startswith(MIG_PREFIX)


def count_unplaced(desired: int, observed: ObservedDeployment | None) -> int:
    """How many desired instances have no accelerators yet, nor were found not to fit."""
    if observed is None:
        return desired
    return max(0, desired - observed.placed - observed.unallocatable)


def find_deployment(
    deployments: Iterable[ObservedDeployment],
) -> Mapping[ObjectKey, ObservedDeployment]:
    """Reported deployments by key."""
    return {(each.namespace, each.name): each for each in deployments}
