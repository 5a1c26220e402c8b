"""The parameters of a policy: objects of any kind that a binding refers to."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.policies.definition import ParamKind, ParamRef
from kilonova.local.catalog import Catalog, storage_resource
from kilonova.local.kinds.base import Kind
from kilonova.local.registry.objects import key_of, shown
from kilonova.local.selectors import label_selector
from kilonova.local.storage import Store

NOT_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class Misconfigured(Exception):
    """A policy or a binding that cannot be followed."""


class Params:
    """Finds parameters in the store."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog

    def kind(self, wanted: ParamKind) -> Kind:
        """The kind of parameters. Raises `Misconfigured` where there is none such."""
        for kind in self._catalog.kinds():
            if (kind.api_version, kind.kind) == (wanted.api_version, wanted.kind):
                return kind
        group, _, version = wanted.api_version.rpartition("/")
        raise Misconfigured(
            "failed to find resource referenced by paramKind: "
            f"'{group}/{version}, Kind={wanted.kind}'"
        )

    def of(
        self, kind: Kind | None, reference: ParamRef | None, namespace: str
    ) -> list[JsonObject | None]:
        """What a policy is run with, once for each; [None] where it takes no parameters.

        `namespace` is that of the object which is judged.
        """
        if kind is None or reference is None:
            return [None]
        if kind.namespaced:
            place = reference.namespace or namespace
            if not place:
                raise Misconfigured(
                    "cannot use namespaced paramRef in policy binding that matches "
                    "cluster-scoped resources"
                )
        elif reference.namespace:
            raise Misconfigured(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        else:
            place = ""
        found = self._found(kind, reference, place)
        if not found and reference.denies_if_absent:
            raise Misconfigured(NOT_FOUND)
        return list(found)

    def _found(self, kind: Kind, reference: ParamRef, namespace: str) -> list[JsonObject]:
        collection = self._store.collection(storage_resource(kind))
        if reference.name:
            entry = collection.get(key_of(namespace, reference.name))
            return [] if entry is None else [shown(kind, entry)]
        selects = label_selector(reference.selector).matches
        return [
            shown(kind, entry) for entry in collection.between(namespace) if selects(entry.labels)
        ]
