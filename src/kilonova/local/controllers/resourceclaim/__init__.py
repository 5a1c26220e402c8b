"""resourceclaim-controller: generates, reserves and releases ResourceClaims of pods.

A pod names **claims**. Each is an existing ResourceClaim, or one that is **generated** for this pod
from a template, and deleted with it; the pod's status names it. The scheduler **allocates** devices
to a claim and **reserves** it for the pods that use it. When the last of them has ended, the claim
is deallocated.
"""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.resourceclaim.controller import ClaimGenerationController
from kilonova.local.controllers.resourceclaim.objects import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from kilonova.local.controllers.resourceclaim.release import ClaimReleaseController
from kilonova.local.objects.core import PODS

__all__ = ["resource_claim_controllers"]


def resource_claim_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """resourceclaim-controller."""
    client = context.client_for("resource-claim-controller")
    pods, claims = context.informer(PODS), context.informer(RESOURCE_CLAIMS)
    events = context.recorder("resource_claim")
    generated = ClaimGenerationController(
        client, pods, claims, context.informer(RESOURCE_CLAIM_TEMPLATES), events
    )
    return [generated.controller, ClaimReleaseController(client, pods, claims).controller]
