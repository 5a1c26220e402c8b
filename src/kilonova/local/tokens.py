"""`serviceaccounts/token`: a TokenRequest answered with a token."""

from datetime import timedelta
from typing import Literal

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time, rfc3339
from kilonova.local.auth import BoundObject, ServiceAccount, ServiceAccountTokens
from kilonova.local.auth.tokens import DEFAULT_SECONDS
from kilonova.local.auth.words import quoted
from kilonova.local.errors import bad_request, conflict, invalid, invalid_value, not_found
from kilonova.local.kinds.walk import at, part
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import key_of
from kilonova.local.storage import Entry

_GROUP = "authentication.k8s.io"
_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Pod": "pods",
    "Secret": "secrets",
    "Node": "nodes",
}
_AFTER_DELETION = timedelta(seconds=60)
"""How long what is bound to an object lives once it should be gone."""


class TokenRequests:
    """Issues tokens for accounts, bound to objects that exist."""

    def __init__(self, registry: Registry, tokens: ServiceAccountTokens) -> None:
        self._registry = registry
        self._tokens = tokens

    def issue(self, account: JsonObject, request: JsonObject) -> JsonObject:
        """The request with its status: the token and when it expires."""
        metadata = account["metadata"]
        spec = part(request, "spec")
        _check_identity(metadata, part(request, "metadata"))
        asked: int | None = spec.get("expirationSeconds")
        seconds = DEFAULT_SECONDS if asked is None else asked
        audiences: list[str] = spec.get("audiences") or list(self._tokens.audiences)
        bound = self._bound(metadata, spec.get("boundObjectRef"))
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
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "creationTimestamp": rfc3339(self._registry.clock.now()),
            },
            "spec": answered,
            "status": {"token": issued.token, "expirationTimestamp": rfc3339(issued.expires)},
        }

    def _bound(self, account: JsonObject, reference: JsonObject | None) -> BoundObject | None:
        if not reference:
            return None
        kind = _bindable(reference)
        name = reference.get("name", "")
        entry = self._stored(kind, "" if kind == "Node" else account["namespace"], name)
        if entry is None:
            raise not_found("", _PLURALS[kind], name)
        node = node_uid = ""
        if kind == "Pod":
            spec = part(entry.decode(), "spec")
            if spec.get("serviceAccountName") != account["name"]:
                raise bad_request(
                    f"cannot bind token for serviceaccount {quoted(account['name'])} to pod "
                    "running with different serviceaccount name."
                )
            node = spec.get("nodeName", "")
            known = self._stored("Node", "", node) if node else None
            node_uid = known.uid if known else ""
        if (uid := reference.get("uid") or entry.uid) != entry.uid:
            raise conflict(
                "",
                kind,
                name,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return BoundObject(kind, name, entry.uid, node, node_uid)

    def _stored(self, kind: str, namespace: str, name: str) -> Entry | None:
        return self._registry.store.collection(_PLURALS[kind]).get(key_of(namespace, name))


def _check_identity(account: JsonObject, asked: JsonObject) -> None:
    if asked.get("namespace") and asked["namespace"] != account["namespace"]:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if asked.get("name") and asked["name"] != account["name"]:
        detail = "must match the service account name if specified"
        problem = invalid_value("metadata.name", asked["name"], detail)
        raise invalid(_GROUP, "TokenRequest", account["name"], [problem])
    if asked.get("uid") and asked["uid"] != account["uid"]:
        raise conflict(
            _GROUP,
            "TokenRequest",
            account["name"],
            f"the UID in the token request ({asked['uid']}) does not match the UID of the "
            f"service account ({account['uid']})",
        )


def _bindable(reference: JsonObject) -> Literal["Pod", "Secret", "Node"]:
    group, slash, version = reference.get("apiVersion", "").partition("/")
    if not slash:
        group, version = "", group
    kind = reference.get("kind", "")
    if group == "" and kind in ("Pod", "Secret", "Node"):
        return kind
    raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")


def object_exists(registry: Registry, kind: str, namespace: str, name: str, uid: str) -> bool:
    """Whether an object of this uid is there, as readers see it, and not long due to go."""
    entry = registry.store.collection(_PLURALS[kind]).get(key_of(namespace, name))
    if entry is None or entry.uid != uid:
        return False
    if b'"deletionTimestamp"' not in entry.body:
        return True
    deleted = at(entry.decode(), "metadata", "deletionTimestamp")
    if not deleted:
        return True
    return parse_time(deleted) + _AFTER_DELETION > registry.clock.now()
