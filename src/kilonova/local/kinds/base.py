"""A kind: its names, and its behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.names import dns_subdomain
from kilonova.local.schema.node import Schema

if TYPE_CHECKING:
    from kilonova.local.auth import User

Cell = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. `value` is given the object and the time of printing."""

    name: str
    type: str  # string, integer, number, boolean, date
    value: Callable[[JsonObject, datetime], Any]
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: only with -o wide


class Behavior:
    """What a kind does beyond its schema. These defaults suit a plain object.

    A subclass per kind overrides what differs. Objects are plain JSON of the storage
    version, already decoded and pruned; `old` is never changed.
    """

    selectable: Mapping[str, Callable[[JsonObject], str]] = {}
    """Field selectors beside metadata.name and metadata.namespace."""

    indexed: frozenset[str] = frozenset()
    """Those of them by which entries are found without looking through all."""

    columns: Sequence[Column] = ()
    """Columns of the table; empty means NAME and AGE."""

    has_generation: bool = False
    """metadata.generation starts at 1 and counts changes outside metadata and status."""

    status_by_subresource: bool = False
    """The main endpoint leaves status alone; `/status` changes nothing else."""

    status_keeps_metadata: bool = False
    """A write to `/status` leaves the metadata alone as well (custom kinds always do)."""

    born_with_status: bool = False
    """An object may be created with a status (nodes: whoever registers one knows it)."""

    unconditional_update: bool = True
    """PUT without a resourceVersion overwrites."""

    create_on_update: bool = False
    """PUT of an absent object creates it."""

    shown_when_deleted: bool = False
    """A delete that removes the object at once answers with it rather than with a Status."""

    orphans_by_default: bool = False
    """Deleting without a propagation policy leaves dependents behind (Jobs, for old clients)."""

    is_graceful: bool = False
    """A deletion is marked on the object before it ends, even if nothing is waited for (pods)."""

    tells_grace: bool = True
    """A marked object says how long its end may take (namespaces do not)."""

    deprecation: str = ""
    """A sentence for whoever reads or writes the kind at all."""

    def default(self, obj: JsonObject) -> None:
        """Give an object its form and fill it in: on every write, before validation."""
        self.form(obj)
        self.fill(obj)

    def form(self, obj: JsonObject) -> None:
        """Bring an object, or some of its fields, into the form in which they are kept."""

    def fill(self, obj: JsonObject) -> None:
        """Set the defaults of this kind."""

    def sign(self, obj: JsonObject, user: User) -> None:
        """Note in a new object who asks for it (a request for a certificate)."""

    def prepare_create(self, obj: JsonObject) -> None:
        """Reset what a client may not set on create (status is reset before this)."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        """Carry over from `old` what a client may not change through the main endpoint."""

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        """Likewise for `/status`."""

    def validate(self, obj: JsonObject) -> list[Problem]:
        """Rules for the object on its own; metadata has been checked before."""
        return []

    def validate_create(self, obj: JsonObject) -> list[Problem]:
        """Rules for a new object alone. `validate(obj)` is called as well."""
        return []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        """Rules for the change: immutable fields. `validate(new)` is called as well."""
        return []

    def grace_seconds(self, obj: JsonObject, requested: int | None) -> int:
        """How long a deletion waits for somebody to confirm it (a pod for its node)."""
        return 0

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        """Note in the object that its deletion begins: a phase, a condition, a finalizer."""

    def may_go(self, obj: JsonObject) -> bool:
        """Whether a deleted object without finalizers may leave (a namespace only when empty)."""
        return True

    def refresh(self, obj: JsonObject) -> None:
        """Bring an object that was stored under an earlier schema up to the present one."""

    def valid_name(self, name: str) -> str | None:
        """Why `name` will not do, or None. The default is a DNS-1123 subdomain."""
        return dns_subdomain(name)

    def cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        """The object as a row of the table, one cell for each of `columns`."""
        return [column.value(obj, now) for column in self.columns]

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        """What the row says of the object as a whole (a pod that has completed)."""
        return []

    def warnings(self, obj: JsonObject) -> list[str]:
        """Sentences for the client's eyes (deprecated fields), on create and update."""
        return []


class ScalePaths(Protocol):
    """Where a kind keeps what `/scale` shows: wanted and observed replicas, and a selector."""

    def read(self, obj: JsonObject) -> tuple[int, int, str]: ...

    def write(self, obj: JsonObject, replicas: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Subresource:
    """An entry like `pods/status` of discovery."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Kind:
    """A resource that the server serves in one version.

    `to_storage` and `from_storage` convert between this version and the stored one, where
    several versions share a storage; None means no difference. `custom` marks kinds
    that a CustomResourceDefinition made.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    load_schema: Callable[[], Schema]
    behavior: Behavior
    behaviors: dict[str, Behavior] = field(default_factory=dict[str, Behavior])
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    subresources: dict[str, Subresource] = field(default_factory=dict[str, Subresource])
    storage_group: str | None = None  # where it is stored, if elsewhere than in its own group
    to_storage: Callable[[JsonObject], JsonObject] | None = None
    from_storage: Callable[[JsonObject], JsonObject] | None = None
    scale: ScalePaths | None = None  # custom kinds: as their definition says
    custom: bool = False
    fresh_rv: int = 0  # entries older than this were stored under an earlier schema
    _schema: Schema | None = None

    @property
    def schema(self) -> Schema:
        """Read when first used: most kinds are never touched in a session."""
        if self._schema is None:
            self._schema = self.load_schema()
        return self._schema

    def behavior_at(self, subresource: str) -> Behavior:
        """Who judges a write there: some subresources have ways of their own (pods/resize)."""
        return self.behaviors.get(subresource, self.behavior)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
