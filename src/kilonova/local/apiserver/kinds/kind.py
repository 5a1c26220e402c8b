"""A kind: its names, and its strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.names import dns_subdomain_error
from kilonova.local.apiserver.schema.node import Schema

if TYPE_CHECKING:
    from kilonova.local.apiserver.auth import User

Cell = str | int | bool | None


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`. `value` takes the object and the current time."""

    name: str
    type: str  # string, integer, number, boolean, date
    value: Callable[[JsonObject, datetime], Any]
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0: only with -o wide


class KindStrategy:
    """What a kind does beyond its schema. The defaults here suit a plain object.

    A subclass per kind overrides what differs. Objects are plain JSON of the storage version,
    already decoded and pruned; `old` is never modified.
    """

    selectable_fields: Mapping[str, Callable[[JsonObject], str]] = {}
    """Field selectors beside metadata.name and metadata.namespace."""

    indexed_fields: frozenset[str] = frozenset()
    """Selectable fields that have an index."""

    columns: Sequence[PrinterColumn] = ()
    """Columns of the table; empty: NAME and AGE."""

    has_generation: bool = False
    """metadata.generation starts at 1 and counts changes outside metadata and status."""

    has_status_subresource: bool = False
    """The main endpoint ignores status; `/status` changes nothing else."""

    status_preserves_metadata: bool = False
    """A write to `/status` ignores the metadata as well (as for all custom kinds)."""

    allows_status_on_create: bool = False
    """An object may be created with a status (nodes, which register themselves)."""

    allows_unconditional_update: bool = True
    """PUT without a resourceVersion overwrites."""

    allows_create_on_update: bool = False
    """PUT of an absent object creates it."""

    returns_deleted_object: bool = False
    """A delete that removes the object immediately returns it rather than a Status."""

    orphans_by_default: bool = False
    """Deleting without a propagation policy orphans dependents (Jobs, for old clients)."""

    has_graceful_deletion: bool = False
    """A delete sets deletionTimestamp first, even with a grace period of 0 (pods)."""

    sets_grace_seconds: bool = True
    """A deleted object has deletionGracePeriodSeconds (namespaces do not)."""

    deprecation: str = ""
    """The warning header for any request of a deprecated kind."""

    def default(self, obj: JsonObject) -> None:
        """Normalize and default an object: on every write, before validation."""
        self.normalize(obj)
        self.set_defaults(obj)

    def normalize(self, obj: JsonObject) -> None:
        """Bring an object, or some of its fields, into its stored form."""

    def set_defaults(self, obj: JsonObject) -> None:
        """Set the defaults of this kind."""

    def record_requester(self, obj: JsonObject, user: User) -> None:
        """Record the requesting user in a new object (CertificateSigningRequests)."""

    def prepare_create(self, obj: JsonObject) -> None:
        """Reset fields that a client must not set on create (status is reset before this)."""

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        """Copy from `old` what a client must not change through the main endpoint."""

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        """Likewise for `/status`."""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Validate the object; metadata has been validated before."""
        return []

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        """Validate a new object. `validate(obj)` is called as well."""
        return []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        """Validate an update: immutable fields. `validate(new)` is called as well."""
        return []

    def grace_seconds(self, obj: JsonObject, requested: int | None) -> int:
        """The grace period of a deletion (of a pod, for its kubelet)."""
        return 0

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        """Change the object when its deletion begins: a phase, a condition, a finalizer."""

    def is_removable(self, obj: JsonObject) -> bool:
        """Whether a deleted object without finalizers may be removed (a namespace: once empty)."""
        return True

    def upgrade_stored(self, obj: JsonObject) -> None:
        """Convert an object that was stored under an earlier schema to the current one."""

    def name_error(self, name: str) -> str | None:
        """The message for an invalid name, or None. The default is a DNS-1123 subdomain."""
        return dns_subdomain_error(name)

    def table_cells(self, obj: JsonObject, now: datetime) -> list[Any]:
        """The object's row in the table, one cell for each of `columns`."""
        return [column.value(obj, now) for column in self.columns]

    def row_conditions(self, obj: JsonObject) -> list[JsonObject]:
        """Conditions of the row (of a pod that has completed)."""
        return []

    def warnings(self, obj: JsonObject) -> list[str]:
        """Warnings for the client (deprecated fields), on create and update."""
        return []


class ScaleAccessor(Protocol):
    """Access to the fields that `/scale` shows: desired and observed replicas, and a selector."""

    def read_scale(self, obj: JsonObject) -> tuple[int, int, str]: ...

    def set_replicas(self, obj: JsonObject, replicas: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource in discovery, such as `pods/status`."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Kind:
    """A resource that the server serves in one version.

    `to_storage` and `from_storage` convert between this version and the storage version; None: they
    are the same. `is_custom` marks kinds of CustomResourceDefinitions.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    load_schema: Callable[[], Schema]
    strategy: KindStrategy
    subresource_strategies: dict[str, KindStrategy] = field(default_factory=dict[str, KindStrategy])
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    list_kind: str = ""
    subresources: dict[str, Subresource] = field(default_factory=dict[str, Subresource])
    storage_group: str | None = None  # the group it is stored in, if not its own
    to_storage: Callable[[JsonObject], JsonObject] | None = None
    from_storage: Callable[[JsonObject], JsonObject] | None = None
    scale: ScaleAccessor | None = None  # custom kinds: by the paths of their definition
    is_custom: bool = False
    schema_revision: int = 0  # entries older than this were stored under an earlier schema
    _schema: Schema | None = None

    @property
    def schema(self) -> Schema:
        """Loaded when first used: most kinds are never used in a session."""
        if self._schema is None:
            self._schema = self.load_schema()
        return self._schema

    def strategy_for(self, subresource: str) -> KindStrategy:
        """The strategy of a write: some subresources have their own (pods/resize)."""
        return self.subresource_strategies.get(subresource, self.strategy)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version
