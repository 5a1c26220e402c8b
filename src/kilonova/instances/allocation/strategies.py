"""The strategies that are built in. Pure."""

from collections.abc import Mapping

from kilonova.instances.allocation.strategy import (
    AllocationConstraints,
    AllocationRequest,
    AllocationStrategy,
)

HOST = "kubernetes.io/hostname"
_MAX_LEVELS = 3


def tightest(request: AllocationRequest) -> AllocationConstraints:
    """The smallest domain with enough capacity: a rack, else a block, else a zone."""
    return AllocationConstraints(preferred=tuple(reversed(request.levels))[:_MAX_LEVELS])


def packed(request: AllocationRequest) -> AllocationConstraints:
    """As few nodes as possible, wherever they are: whole nodes stay free for others."""
    return AllocationConstraints(preferred=(HOST,))


def spread(request: AllocationRequest) -> AllocationConstraints:
    """Instances of a deployment in different domains of the narrowest level, each as tight as
    possible: the loss of a domain takes few of them."""
    narrowest = request.levels[-1] if request.levels else HOST
    return AllocationConstraints(preferred=tightest(request).preferred, spread=narrowest)


STRATEGIES: Mapping[str, AllocationStrategy] = {
    "packed": packed,
    "spread": spread,
    "tightest": tightest,
}
