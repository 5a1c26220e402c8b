"""Creates the claims of a StatefulSet's pods, and sets their owner references."""

from dataclasses import dataclass

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import AlreadyExists, ApiStatusError, Client, KubeError, Reflector
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.controllers.apps.objects import (
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    StatefulSet,
    VolumeClaim,
)
from kilonova.local.controllers.apps.statefulset.identity import build_claims, claim_name, pod_name
from kilonova.local.controllers.apps.statefulset.retention import (
    desired_claim_owners,
    has_other_controller,
    is_claim_stale,
)


class ClaimConflict(KubeError):
    """A claim of that name is being deleted or belongs to another pod; it has to be deleted
    first."""


@dataclass(frozen=True, slots=True)
class VolumeClaimControl:
    """Manages the claims of StatefulSets."""

    client: Client
    events: EventRecorder
    claims: Reflector[VolumeClaim]
    writes: Expectations[VolumeClaim]

    def can_use_claims(self, stateful_set: StatefulSet, ordinal: int) -> bool:
        """Whether no claim of the pod still belongs to a previous pod of its name."""
        name = pod_name(stateful_set, ordinal)
        return not any(
            is_claim_stale(claim.metadata, stateful_set, name)
            for claim in self._existing_claims(stateful_set, ordinal)
        )

    async def create_missing(self, stateful_set: StatefulSet, ordinal: int) -> None:
        """Create the missing claims of a pod."""
        namespace = stateful_set.metadata.namespace
        for body in build_claims(stateful_set, ordinal):
            name = body["metadata"]["name"]
            found = self.claims.store.get((namespace, name))
            if found is not None:
                if found.metadata.deletion_timestamp is not None:
                    raise ClaimConflict(f"pvc {name} is being deleted")
                continue
            pod = pod_name(stateful_set, ordinal)
            where = f"in StatefulSet {stateful_set.metadata.name}"
            try:
                made = await self.client.create(VOLUME_CLAIMS, body, namespace)
            except AlreadyExists:
                raise
            except ApiStatusError as error:
                what = f"Create Claim {name} for Pod {pod} {where}"
                message = f"{what} failed error: {error.message}"
                self.events.event(
                    _object_reference(stateful_set), "FailedCreate", message, warning=True
                )
                raise
            message = f"Create Claim {name} Pod {pod} {where} success"
            self.events.event(_object_reference(stateful_set), "SuccessfulCreate", message)
            await self.writes.wait_for_version(made.metadata.resource_version)

    async def set_owners(
        self, stateful_set: StatefulSet, ordinal: int, pod: Metadata, *, condemned: bool
    ) -> None:
        """Set the owner references of a pod's claims according to the retention policy."""
        for claim in self._existing_claims(stateful_set, ordinal):
            known = claim.metadata
            desired = desired_claim_owners(known, stateful_set, pod, condemned=condemned)
            if desired is None:
                continue
            if has_other_controller(known, stateful_set, pod):
                message = (
                    f"PersistentVolumeClaim {known.name} has a conflicting OwnerReference that "
                    "acts as a manging controller, the retention policy is ignored for this claim"
                )
                self.events.event(
                    _object_reference(stateful_set), "ConflictingController", message, warning=True
                )
            metadata = {
                "resourceVersion": known.resource_version,
                "ownerReferences": [msgspec.to_builtins(each) for each in desired] or None,
            }
            written = await self.client.patch(
                VOLUME_CLAIMS, known.name, {"metadata": metadata}, known.namespace
            )
            await self.writes.wait_for_version(written.metadata.resource_version)

    def _existing_claims(self, stateful_set: StatefulSet, ordinal: int) -> list[VolumeClaim]:
        namespace = stateful_set.metadata.namespace
        names = (
            claim_name(stateful_set, template, ordinal)
            for template in stateful_set.spec.volume_claim_templates
        )
        found = (self.claims.store.get((namespace, name)) for name in names)
        return [claim for claim in found if claim is not None]


def _object_reference(stateful_set: StatefulSet) -> ObjectReference:
    metadata = stateful_set.metadata
    return ObjectReference.to(STATEFUL_SETS, metadata.name, metadata.namespace, metadata.uid)
