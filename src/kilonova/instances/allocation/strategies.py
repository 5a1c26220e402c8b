"""The strategies that are built in. Pure."""

from collections.abc import Mapping

from kilonova.instances.allocation.strategy import (
    AllocationConstraints,
    AllocationRequest,
    AllocationStrategy,
)

HOST = "kubernetes.io/hostname"


def tightest(request: AllocationRequest) -> AllocationConstraints:
    """The smallest domain with enough capacity: a rack, else a block, else a zone."""
    return AllocationConstraints(preferred=tuple(reversed(_list_levels(request))))


def packed(request: AllocationRequest) -> AllocationConstraints:
    """As few nodes as possible, wherever they are: whole nodes stay free for others."""
    return AllocationConstraints(preferred=(HOST,))


def spread(request: AllocationRequest) -> AllocationConstraints:
    """Instances of a deployment in different domains of the narrowest level, each as tight as
    possible: the loss of a domain takes few of them."""
    narrowest = _list_levels(request)[-1:] or (HOST,)
    return AllocationConstraints(preferred=tightest(request).preferred, spread=narrowest[0])


def _list_levels(request: AllocationRequest) -> tuple[str, ...]:
    """The levels of domains: a node is none that replacements could stay in."""
    return tuple(each for each in request.levels if each != HOST)


STRATEGIES: Mapping[str, AllocationStrategy] = {
    "packed": packed,
    "spread": spread,
    "tightest": tightest,
}
