"""What webhooks and policies share: the cluster as they see it."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.expressions import Language, Values, namespace_object
from kilonova.local.admission.matching import Labels, Matcher
from kilonova.local.admission.request import admission_request
from kilonova.local.admission.versions import Versions
from kilonova.local.auth import Action, Authorizer, User
from kilonova.local.catalog import Catalog
from kilonova.local.kinds.base import Kind
from kilonova.local.schema.cel.functions.authorization import (
    Decision,
    Question,
    authorizer,
    resource_check,
)
from kilonova.local.storage import Store

_ACCOUNT = "system:serviceaccount:"
_OWN = "system:apiserver"


class Scope:
    """Kinds and their versions, namespaces, and who may do what."""

    def __init__(self, store: Store, catalog: Catalog, authorizer: Authorizer) -> None:
        self.store = store
        self.catalog = catalog
        self.versions = Versions(catalog)
        self.matcher = Matcher(self.versions, self._namespace_labels)
        self._authorizer = authorizer
        self._namespaces = store.collection("namespaces")

    def is_own(self, attributes: Attributes) -> bool:
        """Whether the server itself writes: what every cluster has must not wait for others, who
        may not run before it is there."""
        return attributes.user.name == _OWN

    def namespace(self, name: str) -> JsonObject | None:
        """A namespace as the next write will find it."""
        entry = self.store.newest(self._namespaces, name)
        return None if entry is None else entry.decode()

    def values(
        self,
        language: Language,
        attributes: Attributes,
        kind: Kind,
        more: Mapping[str, Any] | None = None,
    ) -> Values:
        """What expressions see of a write, in the version of `kind`."""
        part = attributes.target.subresource
        target = attributes.target.kind
        question: Question = {
            "group": target.group,
            "resource": target.plural,
            "subresource": part,
            "namespace": attributes.namespace,
            "name": attributes.name,
        }
        seen: dict[str, Any] = {
            "object": self.versions.shown(attributes.obj, kind, part),
            "oldObject": self.versions.shown(attributes.old, kind, part),
            "request": admission_request(attributes, kind),
            "namespaceObject": None,
            "authorizer": authorizer(),
            "authorizer.requestResource": resource_check(question),
            **(more or {}),
        }
        return Values(language, seen, lambda asked: self._decide(attributes.user, asked))

    def seen_namespace(self, attributes: Attributes) -> JsonObject | None:
        """`namespaceObject`: the namespace that the object is in, if it is in one."""
        if not attributes.target.namespace:
            return None
        found = self.namespace(attributes.target.namespace)
        return None if found is None else namespace_object(found)

    def _namespace_labels(self, name: str) -> Labels | None:
        entry = self.store.newest(self._namespaces, name)
        return None if entry is None else entry.labels

    def _decide(self, user: User, asked: Question) -> Decision:
        if name := asked.get("user"):
            namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            user = User(name, groups=(*groups, "system:authenticated"))
        path = asked.get("path")
        action = (
            Action(asked["verb"], path=path)
            if path is not None
            else Action(
                asked["verb"],
                group=asked.get("group", ""),
                version="*",
                resource=asked.get("resource", ""),
                subresource=asked.get("subresource", ""),
                namespace=asked.get("namespace", ""),
                name=asked.get("name", ""),
            )
        )
        verdict = self._authorizer.decide(user, action)
        return Decision(verdict.allowed, verdict.reason)
