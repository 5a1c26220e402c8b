"""Claims of devices: made for pods, reserved for them, and given back.

A pod names **claims**. Each is a ResourceClaim that somebody made, or one that is **generated** for
this pod alone from a template, and goes with it; the pod's status says which. The scheduler
**allocates** devices to a claim and **reserves** it for the pods that use it. When the last of them
has ended, the devices are free again.
"""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.claims.controller import GeneratedClaims
from kilonova.local.controllers.claims.objects import CLAIMS, TEMPLATES
from kilonova.local.controllers.claims.release import ClaimRelease
from kilonova.local.controllers.objects import PODS
from kilonova.local.controllers.workshop import Workshop

__all__ = ["resource_claim_parts"]


def resource_claim_parts(workshop: Workshop) -> Iterable[Part]:
    """resourceclaim-controller."""
    client = workshop.account("resource-claim-controller")
    pods, claims = workshop.cache(PODS), workshop.cache(CLAIMS)
    events = workshop.recorder("resource_claim")
    generated = GeneratedClaims(client, pods, claims, workshop.cache(TEMPLATES), events)
    return [generated.controller, ClaimRelease(client, pods, claims).controller]
