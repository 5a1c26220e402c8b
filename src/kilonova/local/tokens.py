"""`serviceaccounts/token`: a TokenRequest answered with a token."""

from kilonova.api.json import JsonObject
from kilonova.local.auth import BoundObject, ServiceAccount, ServiceAccountTokens
from kilonova.local.auth.tokens import DEFAULT_SECONDS
from kilonova.local.errors import bad_request, conflict, not_found
from kilonova.local.kinds.walk import part
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import key_of
from kilonova.local.times import rfc3339

_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Pod": "pods",
    "Secret": "secrets",
    "Node": "nodes",
}


class TokenRequests:
    """Issues tokens for accounts, bound to objects that exist."""

    def __init__(self, registry: Registry, tokens: ServiceAccountTokens) -> None:
        self._registry = registry
        self._tokens = tokens

    def issue(self, account: JsonObject, request: JsonObject) -> JsonObject:
        """The request with its status: the token and when it expires."""
        metadata = account["metadata"]
        spec = part(request, "spec")
        named = part(request, "metadata").get("name", "")
        if named and named != metadata["name"]:
            raise bad_request("the name of the TokenRequest does not match the service account")
        seconds: int = spec.get("expirationSeconds") or DEFAULT_SECONDS
        audiences: list[str] = spec.get("audiences") or list(self._tokens.audiences)
        bound = self._bound(metadata["namespace"], spec.get("boundObjectRef"))
        issued = self._tokens.issue(
            ServiceAccount(metadata["namespace"], metadata["name"], metadata["uid"]),
            audiences,
            seconds,
            bound,
        )
        answered: JsonObject = {"audiences": audiences, "expirationSeconds": seconds}
        answered["boundObjectRef"] = spec.get("boundObjectRef")
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "creationTimestamp": rfc3339(self._registry.clock.now()),
            },
            "spec": answered,
            "status": {"token": issued.token, "expirationTimestamp": rfc3339(issued.expires)},
        }

    def _bound(self, namespace: str, reference: JsonObject | None) -> BoundObject | None:
        if not reference:
            return None
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if kind not in ("Pod", "Secret", "Node"):
            raise bad_request(
                f"cannot bind token for object of type {kind}: use Pod, Secret or Node"
            )
        collection = self._registry.store.collection(_PLURALS[kind])
        entry = collection.get(key_of("" if kind == "Node" else namespace, name))
        if entry is None:
            raise not_found("", _PLURALS[kind], name)
        uid = reference.get("uid") or entry.uid
        if uid != entry.uid:
            raise conflict(
                "",
                _PLURALS[kind],
                name,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        node = entry.decode().get("spec", {}).get("nodeName", "") if kind == "Pod" else ""
        return BoundObject(kind, name, uid, node)


def object_exists(registry: Registry, kind: str, namespace: str, name: str, uid: str) -> bool:
    """Whether an object of this uid is there, as readers see it."""
    entry = registry.store.collection(_PLURALS[kind]).get(key_of(namespace, name))
    return entry is not None and entry.uid == uid
