"""What a pod must have before it is placed, beside room on a node: the devices it claims.

A pod waits until each of its claims has devices and is reserved for it, which a scheduler does
that knows devices; then it can go where those can be used.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kilonova.kube import Reflector
from kilonova.local.controllers.claims.generation import named_claim
from kilonova.local.controllers.claims.objects import Claim
from kilonova.local.controllers.fitting import PlaceableNode, PlacedPod, selects
from kilonova.local.controllers.objects import NodeSelector


@dataclass(frozen=True, slots=True)
class Needs:
    """Why a pod has to wait, or which nodes can reach what it has."""

    waiting: str = ""
    selectors: tuple[NodeSelector, ...] = ()

    def objection(self, node: PlaceableNode) -> str | None:
        """Why what the pod has cannot be used on a node."""
        if all(selects(selector, node) for selector in self.selectors):
            return None
        return "node(s) could not reach the pod's resource claims"


class Attachments:
    """Looks into the caches of claims. Pods without any cost a look at an empty list."""

    def __init__(self, claims: Reflector[Claim]) -> None:
        self._claims = claims

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a pod that waited may have to wait no longer."""
        self._claims.store.subscribe(lambda _old, _new: changed())

    async def wait_synced(self) -> None:
        await self._claims.wait_synced()

    def needs(self, pod: PlacedPod) -> Needs:
        """What is to be known of a pod before a node is chosen."""
        selectors: list[NodeSelector] = []
        for wanted in pod.spec.resource_claims:
            known = named_claim(wanted, pod.status.resource_claim_statuses)
            if known is not None and known.name is None:
                continue
            name = known.name if known is not None and known.name else wanted.name
            claim = self._claims.store.get((pod.metadata.namespace, name)) if known else None
            if claim is None:
                return Needs(f"waiting for resource claim {name} to be created")
            allocation = claim.status.allocation
            if allocation is None or not claim.is_reserved_for(pod.metadata.uid):
                return Needs(f"waiting for resource claim {name} to be allocated")
            if allocation.node_selector is not None:
                selectors.append(allocation.node_selector)
        return Needs(selectors=tuple(selectors))
