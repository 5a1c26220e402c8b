"""ResourceClaims that are allocated on simulated nodes: their devices are held as those of pods.

On a real node the DRA driver makes what claims need, when the kubelet asks it to.
"""

from collections.abc import Iterable

from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.simulated.claim_objects import Claim
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.dra.resource_slices import list_pool_devices


def read_claim_holders(
    node: str, inventory: NodeInventory, claims: Iterable[Claim]
) -> tuple[Holder, ...]:
    """What claims have of a node. Pure."""
    allocated = list(claims)
    if not allocated:
        return ()
    pool = list_pool_devices(inventory)
    found: list[Holder] = []
    for claim in allocated:
        devices = tuple(
            pool[each.device].assignment
            for each in claim.results
            if each.pool == node and each.device in pool
        )
        if devices:
            known = claim.metadata
            found.append(Holder(known.namespace, known.name, known.uid, devices, is_claim=True))
    return tuple(sorted(found, key=lambda each: each.key))
