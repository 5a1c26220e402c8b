"""The cluster state that webhooks and policies share."""

from collections.abc import Mapping
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.expressions import (
    ExpressionBindings,
    ExpressionCompiler,
    visible_namespace,
)
from kilonova.local.apiserver.admission.matching import Labels, RequestMatcher
from kilonova.local.apiserver.admission.request import admission_request
from kilonova.local.apiserver.admission.version_conversion import VersionConverter
from kilonova.local.apiserver.auth import AuthorizationAttributes, Authorizer, User
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.schema.cel.authorization import (
    AuthorizationQuery,
    QueryDecision,
    authorizer_value,
    resource_check_value,
)
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.apiserver.storage import RevisionStore

_SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
_SERVER_USER = "system:apiserver"


class AdmissionContext:
    """Kinds and their versions, namespaces, and the authorizer."""

    def __init__(
        self, store: RevisionStore, served_kinds: ServedKinds, authorizer: Authorizer
    ) -> None:
        self.store = store
        self.served_kinds = served_kinds
        self.versions = VersionConverter(served_kinds)
        self.matcher = RequestMatcher(self.versions, self._namespace_labels)
        self._authorizer = authorizer
        self._namespaces = store.collection("namespaces")

    def is_server_request(self, attributes: Attributes) -> bool:
        """Whether the server itself writes: bootstrap objects must not depend on webhooks, which
        may not run before they exist."""
        return attributes.user.name == _SERVER_USER

    def find_namespace(self, name: str) -> JsonObject | None:
        """A namespace, as the next write will see it."""
        entry = self.store.newest_entry(self._namespaces, name)
        return None if entry is None else entry.decode()

    def bindings(
        self,
        compiler: ExpressionCompiler,
        attributes: Attributes,
        kind: Kind,
        extra: Mapping[str, Any] | None = None,
    ) -> ExpressionBindings:
        """The variables of expressions for a write, in the version of `kind`."""
        part = attributes.target.subresource
        target = attributes.target.kind
        question: AuthorizationQuery = {
            "group": target.group,
            "resource": target.plural,
            "subresource": part,
            "namespace": attributes.namespace,
            "name": attributes.name,
        }
        variables: dict[str, Any] = {
            "object": self.versions.to_version(attributes.obj, kind, part),
            "oldObject": self.versions.to_version(attributes.old, kind, part),
            "request": admission_request(attributes, kind),
            "namespaceObject": None,
            "authorizer": authorizer_value(),
            "authorizer.requestResource": resource_check_value(question),
            **(extra or {}),
        }
        return ExpressionBindings(
            compiler, variables, lambda action: self._authorize(attributes.user, action)
        )

    def namespace_object(self, attributes: Attributes) -> JsonObject | None:
        """`namespaceObject`: the namespace of the object, if it has one."""
        if not attributes.target.namespace:
            return None
        found = self.find_namespace(attributes.target.namespace)
        return None if found is None else visible_namespace(found)

    def _namespace_labels(self, name: str) -> Labels | None:
        entry = self.store.newest_entry(self._namespaces, name)
        return None if entry is None else entry.labels

    def _authorize(self, user: User, query: AuthorizationQuery) -> QueryDecision:
        if name := query.get("user"):
            namespace = name.removeprefix(_SERVICE_ACCOUNT_PREFIX).partition(":")[0]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            user = User(name, groups=(*groups, "system:authenticated"))
        path = query.get("path")
        action = (
            AuthorizationAttributes(query["verb"], path=path)
            if path is not None
            else AuthorizationAttributes(
                query["verb"],
                group=query.get("group", ""),
                version="*",
                resource=query.get("resource", ""),
                subresource=query.get("subresource", ""),
                namespace=query.get("namespace", ""),
                name=query.get("name", ""),
            )
        )
        verdict = self._authorizer.authorize(user, action)
        return QueryDecision(verdict.allowed, verdict.reason)
