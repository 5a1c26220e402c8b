"""Makes the claims of devices that all replicas of a set share."""

from collections.abc import Iterable

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import ResourceSharing
from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Key
from kilonova.kube.echo import Echo
from kilonova.workloads.caches import Caches
from kilonova.workloads.resources import CLAIM_TEMPLATES, CLAIMS
from kilonova.workloads.templates.claims import external_templates, set_claims


class SetClaims:
    """ResourceClaims of whole sets. What they are made from never changes, so neither do they."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._store = caches.claims.store
        self._echo = Echo(caches.claims)

    async def keep(self, set_: PodCliqueSet) -> None:
        """Make those that are missing; `NotFound` if a template outside the set is not there."""
        namespace, set_name = set_.metadata.namespace, set_.metadata.name
        missing = {
            names.shared_claim(set_name, each.name): each
            for each in set_.spec.template.resource_sharing
            if each.scope == "AllReplicas"
            and (namespace, names.shared_claim(set_name, each.name)) not in self._store
        }
        if not missing:
            return
        templates = await self._outside(set_, missing.values())
        for claim in set_claims(set_, templates):
            if claim["metadata"]["name"] in missing:
                await self._create(claim, namespace)

    async def _outside(
        self, set_: PodCliqueSet, sharings: Iterable[ResourceSharing]
    ) -> dict[Key, JsonObject]:
        """Specs of the templates that are not in the set."""
        asked = {(each.namespace or set_.metadata.namespace, each.name) for each in sharings}
        found: dict[Key, JsonObject] = {}
        for key in sorted(asked & external_templates(set_)):
            namespace, name = key
            found[key] = (await self._client.get(CLAIM_TEMPLATES, name, namespace)).spec
        return found

    async def _create(self, claim: JsonObject, namespace: str) -> None:
        try:
            made = await self._client.create(CLAIMS, claim, namespace)
        except AlreadyExists:
            return
        await self._echo.of_version(made.metadata.resource_version)
