"""The parameters of a policy: objects of any kind that a binding refers to."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.selectors import selector_from_object
from kilonova.local.apiserver.admission.policies.definition import ParamKind, ParamRef
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.encoding import decode_entry, object_key
from kilonova.local.apiserver.served_kinds import ServedKinds, storage_resource
from kilonova.local.apiserver.storage import RevisionStore

PARAMS_NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class PolicyConfigurationError(Exception):
    """An invalid policy or binding."""


class ParamFinder:
    """Finds parameters in the storage."""

    def __init__(self, store: RevisionStore, served_kinds: ServedKinds) -> None:
        self._store = store
        self._served_kinds = served_kinds

    def find_kind(self, param_kind: ParamKind) -> Kind:
        """The kind of the parameters. Raises `PolicyConfigurationError` if it does not exist."""
        for kind in self._served_kinds.kinds():
            if (kind.api_version, kind.kind) == (param_kind.api_version, param_kind.kind):
                return kind
        group, _, version = param_kind.api_version.rpartition("/")
        raise PolicyConfigurationError(
            "failed to find resource referenced by paramKind: "
            f"'{group}/{version}, Kind={param_kind.kind}'"
        )

    def find(
        self, kind: Kind | None, reference: ParamRef | None, namespace: str
    ) -> list[JsonObject | None]:
        """The parameters to evaluate the policy with, once for each; [None] if it has none.

        `namespace` is that of the object under review.
        """
        if kind is None or reference is None:
            return [None]
        if kind.namespaced:
            param_namespace = reference.namespace or namespace
            if not param_namespace:
                raise PolicyConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches "
                    "cluster-scoped resources"
                )
        elif reference.namespace:
            raise PolicyConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        else:
            param_namespace = ""
        found = self._find_objects(kind, reference, param_namespace)
        if not found and reference.deny_if_not_found:
            raise PolicyConfigurationError(PARAMS_NOT_FOUND)
        return list(found)

    def _find_objects(self, kind: Kind, reference: ParamRef, namespace: str) -> list[JsonObject]:
        collection = self._store.collection(storage_resource(kind))
        if reference.name:
            entry = collection.get(object_key(namespace, reference.name))
            return [] if entry is None else [decode_entry(kind, entry)]
        selects = selector_from_object(reference.selector).matches
        return [
            decode_entry(kind, entry)
            for entry in collection.range_entries(namespace)
            if selects(entry.labels)
        ]
