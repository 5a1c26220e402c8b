"""Making the claims of a StatefulSet's pods, and saying whose they are."""

from dataclasses import dataclass

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import AlreadyExists, ApiStatusError, Client, KubeError, Reflector
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.local.controllers.apps.objects import CLAIMS, STATEFUL_SETS, Claim, StatefulSet
from kilonova.local.controllers.apps.statefulset.identity import claim_name, claims_of, pod_name
from kilonova.local.controllers.apps.statefulset.retention import (
    has_other_controller,
    is_left_behind,
    owners_of_claim,
)


class ClaimInTheWay(KubeError):
    """A claim of that name is on its way out, or another's; it has to be gone first."""


@dataclass(frozen=True, slots=True)
class ClaimWork:
    """Works on claims for one set at a time."""

    client: Client
    events: Recorder
    claims: Reflector[Claim]
    echo: Echo[Claim]

    def may_use(self, stateful_set: StatefulSet, ordinal: int) -> bool:
        """Whether no claim of the pod still belongs to an earlier one of its name."""
        name = pod_name(stateful_set, ordinal)
        return not any(
            is_left_behind(claim.metadata, stateful_set, name)
            for claim in self._present(stateful_set, ordinal)
        )

    async def create_missing(self, stateful_set: StatefulSet, ordinal: int) -> None:
        """Make the claims of a pod that are not there."""
        namespace = stateful_set.metadata.namespace
        for body in claims_of(stateful_set, ordinal):
            name = body["metadata"]["name"]
            found = self.claims.store.get((namespace, name))
            if found is not None:
                if found.metadata.deletion_timestamp is not None:
                    raise ClaimInTheWay(f"pvc {name} is being deleted")
                continue
            pod = pod_name(stateful_set, ordinal)
            where = f"in StatefulSet {stateful_set.metadata.name}"
            try:
                made = await self.client.create(CLAIMS, body, namespace)
            except AlreadyExists:
                raise
            except ApiStatusError as error:
                what = f"Create Claim {name} for Pod {pod} {where}"
                message = f"{what} failed error: {error.message}"
                self.events.event(_about(stateful_set), "FailedCreate", message, warning=True)
                raise
            message = f"Create Claim {name} Pod {pod} {where} success"
            self.events.event(_about(stateful_set), "SuccessfulCreate", message)
            await self.echo.of_version(made.metadata.resource_version)

    async def set_owners(
        self, stateful_set: StatefulSet, ordinal: int, pod: Metadata, *, condemned: bool
    ) -> None:
        """Let the claims of a pod belong to whom the retention policy says."""
        for claim in self._present(stateful_set, ordinal):
            known = claim.metadata
            wanted = owners_of_claim(known, stateful_set, pod, condemned=condemned)
            if wanted is None:
                continue
            if has_other_controller(known, stateful_set, pod):
                message = (
                    f"PersistentVolumeClaim {known.name} has a conflicting OwnerReference that "
                    "acts as a manging controller, the retention policy is ignored for this claim"
                )
                self.events.event(
                    _about(stateful_set), "ConflictingController", message, warning=True
                )
            metadata = {
                "resourceVersion": known.resource_version,
                "ownerReferences": [msgspec.to_builtins(each) for each in wanted] or None,
            }
            written = await self.client.patch(
                CLAIMS, known.name, {"metadata": metadata}, known.namespace
            )
            await self.echo.of_version(written.metadata.resource_version)

    def _present(self, stateful_set: StatefulSet, ordinal: int) -> list[Claim]:
        namespace = stateful_set.metadata.namespace
        names = (
            claim_name(stateful_set, template, ordinal)
            for template in stateful_set.spec.volume_claim_templates
        )
        found = (self.claims.store.get((namespace, name)) for name in names)
        return [claim for claim in found if claim is not None]


def _about(stateful_set: StatefulSet) -> Reference:
    known = stateful_set.metadata
    return Reference.to(STATEFUL_SETS, known.name, known.namespace, known.uid)
