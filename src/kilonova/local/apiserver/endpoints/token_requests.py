"""`serviceaccounts/token`: answers a TokenRequest with a token."""

from datetime import timedelta
from typing import Literal

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.local.apimachinery.errors import (
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_value
from kilonova.local.apiserver.auth import BoundObjectRef, ServiceAccount, ServiceAccountTokenIssuer
from kilonova.local.apiserver.auth.go_quoting import go_quote
from kilonova.local.apiserver.auth.service_account_tokens import DEFAULT_TOKEN_SECONDS
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import object_key
from kilonova.local.apiserver.storage import Entry

_GROUP = "authentication.k8s.io"
_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Pod": "pods",
    "Secret": "secrets",
    "Node": "nodes",
}
_DELETION_GRACE = timedelta(seconds=60)
"""How long a token remains valid after the deletion of the object that it is bound to."""


class TokenRequestHandler:
    """Issues tokens for service accounts, bound to objects that exist."""

    def __init__(self, registry: RegistryContext, tokens: ServiceAccountTokenIssuer) -> None:
        self._registry = registry
        self._tokens = tokens

    def issue(self, account: JsonObject, request: JsonObject) -> JsonObject:
        """The request with its status: the token and its expiry."""
        metadata = account["metadata"]
        spec = nested_object(request, "spec")
        _check_identity(metadata, nested_object(request, "metadata"))
        requested_seconds: int | None = spec.get("expirationSeconds")
        seconds = DEFAULT_TOKEN_SECONDS if requested_seconds is None else requested_seconds
        audiences: list[str] = spec.get("audiences") or list(self._tokens.audiences)
        bound = self._find_bound_object(metadata, spec.get("boundObjectRef"))
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
                "creationTimestamp": format_rfc3339(self._registry.clock.now()),
            },
            "spec": answered,
            "status": {
                "token": issued.token,
                "expirationTimestamp": format_rfc3339(issued.expires),
            },
        }

    def _find_bound_object(
        self, account: JsonObject, reference: JsonObject | None
    ) -> BoundObjectRef | None:
        if not reference:
            return None
        kind = _check_bound_kind(reference)
        name = reference.get("name", "")
        entry = self._find_entry(kind, "" if kind == "Node" else account["namespace"], name)
        if entry is None:
            raise not_found("", _PLURALS[kind], name)
        node = node_uid = ""
        if kind == "Pod":
            spec = nested_object(entry.decode(), "spec")
            if spec.get("serviceAccountName") != account["name"]:
                raise bad_request(
                    f"cannot bind token for serviceaccount {go_quote(account['name'])} to pod "
                    "running with different serviceaccount name."
                )
            node = spec.get("nodeName", "")
            known = self._find_entry("Node", "", node) if node else None
            node_uid = known.uid if known else ""
        if (uid := reference.get("uid") or entry.uid) != entry.uid:
            raise conflict(
                "",
                kind,
                name,
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return BoundObjectRef(kind, name, entry.uid, node, node_uid)

    def _find_entry(self, kind: str, namespace: str, name: str) -> Entry | None:
        return self._registry.store.collection(_PLURALS[kind]).get(object_key(namespace, name))


def _check_identity(account: JsonObject, metadata: JsonObject) -> None:
    if metadata.get("namespace") and metadata["namespace"] != account["namespace"]:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if metadata.get("name") and metadata["name"] != account["name"]:
        detail = "must match the service account name if specified"
        problem = invalid_value("metadata.name", metadata["name"], detail)
        raise invalid(_GROUP, "TokenRequest", account["name"], [problem])
    if metadata.get("uid") and metadata["uid"] != account["uid"]:
        raise conflict(
            _GROUP,
            "TokenRequest",
            account["name"],
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the "
            f"service account ({account['uid']})",
        )


def _check_bound_kind(reference: JsonObject) -> Literal["Pod", "Secret", "Node"]:
    group, slash, version = reference.get("apiVersion", "").partition("/")
    if not slash:
        group, version = "", group
    kind = reference.get("kind", "")
    if group == "" and kind in ("Pod", "Secret", "Node"):
        return kind
    raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")


def object_exists(
    registry: RegistryContext, kind: str, namespace: str, name: str, uid: str
) -> bool:
    """Whether an object of this uid exists, as readers see it, and was not deleted long ago."""
    entry = registry.store.collection(_PLURALS[kind]).get(object_key(namespace, name))
    if entry is None or entry.uid != uid:
        return False
    if b'"deletionTimestamp"' not in entry.body:
        return True
    deleted = nested_value(entry.decode(), "metadata", "deletionTimestamp")
    if not deleted:
        return True
    return parse_time(deleted) + _DELETION_GRACE > registry.clock.now()
