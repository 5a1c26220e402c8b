"""The kinds that are served now: the built-in ones, and those of CustomResourceDefinitions."""

from collections.abc import Iterable

from kilonova.local.apiserver.kinds.kind import Kind


def storage_resource(kind: Kind) -> str:
    """The name of the collection: `pods`, `deployments.apps`. Versions of a kind share it."""
    group = kind.group if kind.storage_group is None else kind.storage_group
    return f"{kind.plural}.{group}" if group else kind.plural


class ServedKinds:
    """The served kinds by group, version and plural.

    `revision` counts changes: results computed from all kinds are cached for one revision.
    """

    def __init__(self, builtin: Iterable[Kind]) -> None:
        self._builtin = list(builtin)
        self._builtin_versions = {(kind.group, kind.version) for kind in self._builtin}
        self._kinds: set[tuple[str, str]] = set()
        self._custom: dict[str, list[Kind]] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._storage_kinds: dict[str, Kind] = {}
        self.revision = 0
        self._rebuild_index()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Whether there is such a kind in any served group."""
        return (api_version, kind) in self._kinds

    def is_builtin_version(self, group: str, version: str) -> bool:
        """Whether the group-version is served without any CustomResourceDefinition."""
        return (group, version) in self._builtin_versions

    def stored_kind(self, resource: str) -> Kind | None:
        """The kind whose version is the one stored in the collection `resource`."""
        return self._storage_kinds.get(resource)

    def storage_kind(self, kind: Kind) -> Kind:
        """The kind in its storage version: itself, unless its objects are converted."""
        if kind.is_custom or kind.to_storage is None:
            return kind
        return self._storage_kinds[storage_resource(kind)]

    def kinds(self) -> list[Kind]:
        """All served kinds: the built-in ones first, in the order of their table."""
        return list(self._by_path.values())

    def install_crd_kinds(self, definition: str, kinds: list[Kind]) -> None:
        """Serve the kinds of a CustomResourceDefinition instead of those it defined before."""
        self._custom[definition] = kinds
        self._rebuild_index()

    def update_verbs(self, definition: str, verbs: dict[str, tuple[str, ...]]) -> None:
        """Change the verbs of a definition's kinds, by version."""
        for kind in self._custom.get(definition, ()):
            kind.verbs = verbs.get(kind.version, kind.verbs)
        self.revision += 1

    def remove_crd_kinds(self, definition: str) -> None:
        if self._custom.pop(definition, None) is not None:
            self._rebuild_index()

    def _rebuild_index(self) -> None:
        everything = [*self._builtin, *(kind for kinds in self._custom.values() for kind in kinds)]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in everything}
        self._kinds = {(kind.api_version, kind.kind) for kind in everything}
        self._storage_kinds = {}
        for kind in everything:
            if kind.from_storage is None:
                self._storage_kinds.setdefault(storage_resource(kind), kind)
        self.revision += 1
