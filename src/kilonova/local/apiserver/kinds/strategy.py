"""Registration of strategies with the built-in kinds.

`@register_strategy("apps", "Deployment")` on a subclass of `BuiltinStrategy` sets the strategy of
that kind, or of one of its subresources if it names one. All modules of this package are imported
to find them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.unstructured import nested_strings
from kilonova.local.apiserver.kinds.columns import CREATED_AT, NAME
from kilonova.local.apiserver.kinds.kind import KindStrategy, PrinterColumn
from kilonova.local.apiserver.kinds.normalization import Normalizer, NormalizerCompiler
from kilonova.local.apiserver.schema.node import Schema

Conversion = Callable[[JsonObject], JsonObject]
FieldReader = Callable[[JsonObject], str]
"""Reads the value of a selectable field from an object."""


@dataclass(frozen=True, slots=True)
class StorageVersion:
    """For a version that is not the storage version: the latter, and the conversions."""

    group: str
    to_storage: Conversion
    from_storage: Conversion


class BuiltinStrategy(KindStrategy):
    """The base strategy of built-in kinds.

    Subclasses set defaults in `set_defaults`, to which objects are passed normalized: structs
    exist, empty values do not.
    """

    storage: StorageVersion | None = None
    """Set if the version is not the storage version."""

    columns: Sequence[PrinterColumn] = (NAME, CREATED_AT)

    _normalizers: ClassVar[NormalizerCompiler] = NormalizerCompiler()

    def __init__(self, load_schema: Callable[[], Schema]) -> None:
        self._load_schema = load_schema
        self._normalizer: Normalizer | None = None
        self._status_normalizer: Normalizer | None = None
        self._has_status = False

    def normalize(self, obj: JsonObject) -> None:
        """Normalize the object without setting defaults."""
        self._compile_normalizer()(obj)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return [*_validate_finalizers(obj["metadata"]), *self.validate_fields(obj)]

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        """Validate the object except its metadata."""
        return []

    def prepare_create(self, obj: JsonObject) -> None:
        if self.has_status_subresource and not self.allows_status_on_create:
            self.reset_status(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        if self.has_status_subresource:
            _preserve_field(new, old, "status")

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        _preserve_field(new, old, "spec")

    def reset_status(self, obj: JsonObject) -> None:
        """Set the initial status of a new object."""
        self._compile_normalizer()
        if self._has_status:
            obj["status"] = self._status_normalizer({}) if self._status_normalizer else {}

    def _compile_normalizer(self) -> Normalizer:
        if self._normalizer is None:
            schema = self._load_schema()
            status = schema.properties.get("status")
            self._has_status = status is not None
            self._status_normalizer = self._normalizers.compile(status) if status else None
            self._normalizer = self._normalizers.compile(schema) or _identity
        return self._normalizer


_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

S = TypeVar("S", bound=type[BuiltinStrategy])

_strategies: dict[tuple[str, str, str, str], type[BuiltinStrategy]] = {}


def register_strategy(
    group: str, kind: str, version: str = "v1", *, subresource: str = ""
) -> Callable[[S], S]:
    """Set the strategy of a built-in kind or of one of its subresources."""

    def register(cls: S) -> S:
        _strategies[group, version, kind, subresource] = cls
        return cls

    return register


def strategy_class(group: str, version: str, kind: str) -> type[BuiltinStrategy]:
    """The registered class, or the base strategy."""
    return _strategies.get((group, version, kind, ""), BuiltinStrategy)


def subresource_strategy_classes(
    group: str, version: str, kind: str
) -> dict[str, type[BuiltinStrategy]]:
    """The classes registered for subresources of the kind, by subresource."""
    return {
        subresource: cls
        for (*of, subresource), cls in _strategies.items()
        if subresource and of == [group, version, kind]
    }


def _validate_finalizers(metadata: JsonObject) -> list[FieldError]:
    """Finalizers of built-in kinds must be qualified or standard names."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, detail)
        for index, name in enumerate(nested_strings(metadata, "finalizers"))
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _preserve_field(new: JsonObject, old: JsonObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _identity(value: Any) -> Any:
    return value
