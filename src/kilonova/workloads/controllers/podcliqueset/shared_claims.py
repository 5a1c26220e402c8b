"""Creates the ResourceClaims that all replicas of a set share."""

from collections.abc import Iterable

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import ResourceSharing
from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Key
from kilonova.kube.controllers.expectations import Expectations
from kilonova.workloads.builders.resource_claims import build_set_claims, list_external_templates
from kilonova.workloads.caches import Caches
from kilonova.workloads.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS


class SharedClaimWriter:
    """ResourceClaims of whole sets. Their templates are immutable, so they are never updated."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._store = caches.claims.store
        self._expectations = Expectations(caches.claims)

    async def ensure_claims(self, set_: PodCliqueSet) -> None:
        """Create missing claims; raises `NotFound` if an external template does not exist."""
        namespace, set_name = set_.metadata.namespace, set_.metadata.name
        missing = {
            names.shared_claim(set_name, each.name): each
            for each in set_.spec.template.resource_sharing
            if each.scope == "AllReplicas"
            and (namespace, names.shared_claim(set_name, each.name)) not in self._store
        }
        if not missing:
            return
        templates = await self._get_external_templates(set_, missing.values())
        for claim in build_set_claims(set_, templates):
            if claim["metadata"]["name"] in missing:
                await self._create(claim, namespace)

    async def _get_external_templates(
        self, set_: PodCliqueSet, sharings: Iterable[ResourceSharing]
    ) -> dict[Key, JsonObject]:
        """Specs of the templates that are not defined in the set."""
        requested = {(each.namespace or set_.metadata.namespace, each.name) for each in sharings}
        found: dict[Key, JsonObject] = {}
        for key in sorted(requested & list_external_templates(set_)):
            namespace, name = key
            found[key] = (await self._client.get(RESOURCE_CLAIM_TEMPLATES, name, namespace)).spec
        return found

    async def _create(self, claim: JsonObject, namespace: str) -> None:
        try:
            created = await self._client.create(RESOURCE_CLAIMS, claim, namespace)
        except AlreadyExists:
            return
        await self._expectations.wait_for_version(created.metadata.resource_version)
