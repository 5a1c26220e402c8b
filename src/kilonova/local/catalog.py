"""Which kinds are served right now: the built-in ones, and those that CRDs have added."""

from collections.abc import Iterable

from kilonova.local.kinds.base import Kind


def storage_resource(kind: Kind) -> str:
    """The name of the collection: `pods`, `deployments.apps`. Versions of a kind share it."""
    group = kind.group if kind.storage_group is None else kind.storage_group
    return f"{kind.plural}.{group}" if group else kind.plural


class Catalog:
    """The served kinds by where they are asked for.

    `revision` counts changes, so that what is made of the whole list can be kept until then.
    """

    def __init__(self, builtin: Iterable[Kind]) -> None:
        self._builtin = list(builtin)
        self._builtin_versions = {(kind.group, kind.version) for kind in self._builtin}
        self._kinds: set[tuple[str, str]] = set()
        self._custom: dict[str, list[Kind]] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._stored: dict[str, Kind] = {}
        self.revision = 0
        self._index()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Whether there is such a kind in any served group."""
        return (api_version, kind) in self._kinds

    def is_builtin_version(self, group: str, version: str) -> bool:
        """Whether the group-version is there whatever is defined."""
        return (group, version) in self._builtin_versions

    def stored(self, resource: str) -> Kind | None:
        """The kind whose version is the one stored in the collection `resource`."""
        return self._stored.get(resource)

    def storing(self, kind: Kind) -> Kind:
        """The version that objects of `kind` are kept in; its own, unless they are converted."""
        if kind.custom or kind.to_storage is None:
            return kind
        return self._stored[storage_resource(kind)]

    def kinds(self) -> list[Kind]:
        """All of them, built-in first, in the order of the tables."""
        return list(self._by_path.values())

    def install(self, definition: str, kinds: list[Kind]) -> None:
        """Serve the kinds of a CustomResourceDefinition, in place of what it gave before."""
        self._custom[definition] = kinds
        self._index()

    def restrict(self, definition: str, verbs: dict[str, tuple[str, ...]]) -> None:
        """Give the kinds of a definition other verbs, by version; they stay the same kinds."""
        for kind in self._custom.get(definition, ()):
            kind.verbs = verbs.get(kind.version, kind.verbs)
        self.revision += 1

    def remove(self, definition: str) -> None:
        if self._custom.pop(definition, None) is not None:
            self._index()

    def _index(self) -> None:
        everything = [*self._builtin, *(kind for kinds in self._custom.values() for kind in kinds)]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in everything}
        self._kinds = {(kind.api_version, kind.kind) for kind in everything}
        self._stored = {}
        for kind in everything:
            if kind.from_storage is None:
                self._stored.setdefault(storage_resource(kind), kind)
        self.revision += 1
