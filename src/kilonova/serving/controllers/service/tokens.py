"""The tokens of gateways: made once for each service, and kept in its Secret."""

from kilonova.api.serving import names
from kilonova.kube import AlreadyExists, NotFound
from kilonova.kube.controllers.owned_objects import NameTaken
from kilonova.kube.owner_references import is_controlled_by
from kilonova.serving.builders.gateway_secret import build_token_secret, read_token
from kilonova.serving.builders.identity import Identity
from kilonova.serving.context import ServingContext
from kilonova.serving.resources import SECRETS, DataObject


class TokenStore:
    """Finds the Secrets of gateways, and creates those that are missing."""

    def __init__(self, context: ServingContext) -> None:
        self._client = context.client
        self._cache = context.caches.gateway_secrets
        self._new_token = context.new_token

    async def ensure(self, identity: Identity) -> DataObject:
        """The Secret of a service, with a token; `NameTaken` if its name is used otherwise."""
        name, namespace = names.build_gateway(identity.name), identity.namespace
        cached = self._cache.store.get((namespace, name))
        if (
            cached is not None
            and read_token(cached)
            and is_controlled_by(cached.metadata, identity.metadata)
        ):
            return cached
        try:
            found = await self._client.get(SECRETS, name, namespace)
        except NotFound:
            return await self._create(identity)
        if not is_controlled_by(found.metadata, identity.metadata):
            raise NameTaken(SECRETS.kind, name, "service")
        if read_token(found):
            return found
        wanted = build_token_secret(identity, self._new_token())
        body = {"metadata": {"uid": found.metadata.uid}, "data": wanted["data"]}
        return await self._client.patch(SECRETS, name, body, namespace)

    async def _create(self, identity: Identity) -> DataObject:
        body = build_token_secret(identity, self._new_token())
        try:
            return await self._client.create(SECRETS, body, identity.namespace)
        except AlreadyExists:
            # By an attempt whose response was lost: its token counts.
            return await self.ensure(identity)
