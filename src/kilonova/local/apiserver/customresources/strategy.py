"""The strategy of custom kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, FieldError, internal, invalid_value
from kilonova.local.apimachinery.names import qualified_name_error
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings
from kilonova.local.apiserver.customresources.columns import (
    printer_columns,
    selectable_field_readers,
)
from kilonova.local.apiserver.customresources.scale import CustomResourceScale
from kilonova.local.apiserver.customresources.version_validation import (
    MANY_RULES_THRESHOLD,
    count_rules,
    has_rules,
)
from kilonova.local.apiserver.kinds.kind import KindStrategy
from kilonova.local.apiserver.schema.checker import SchemaChecker, schema_checker
from kilonova.local.apiserver.schema.node import Schema

if TYPE_CHECKING:
    from kilonova.local.apiserver.schema.cel import RuleSet

_BLOCKING_REASONS = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Errors after which rules are not evaluated: the object does not match its schema."""

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


class CustomResourceStrategy(KindStrategy):
    """One version of a custom kind. Schema and rules are compiled when first used, once for all
    kinds with the same schema."""

    has_generation = True
    allows_unconditional_update = False

    def __init__(
        self,
        version: JsonObject,
        kind: str,
        load_schema: Callable[[], Schema],
        scale: CustomResourceScale | None,
    ) -> None:
        self._kind = kind
        self._version: str = version["name"]
        self._load_schema = load_schema
        self._scale = scale
        self._rule_set: tuple[RuleSet, ...] | ApiError | None = None
        self.columns = printer_columns(nested_objects(version, "additionalPrinterColumns"))
        self.selectable_fields = selectable_field_readers(
            nested_objects(version, "selectableFields")
        )
        self.has_status_subresource = "status" in nested_object(version, "subresources")

    @cached_property
    def _checker(self) -> SchemaChecker:
        return schema_checker(self._load_schema())

    @property
    def is_slow_to_compile(self) -> bool:
        """Whether `compile_rules` has not run yet and takes long."""
        if self._rule_set is not None:
            return False
        schema = self._load_schema()
        return schema.rule_sets is None and count_rules(schema.source) >= MANY_RULES_THRESHOLD

    def compile_for(self, obj: JsonObject) -> None:
        """Compile what validating `obj` requires, and all rules. Called on another thread."""
        self._checker.validate(obj)
        self.compile_rules()

    def compile_rules(self) -> None:
        """Compile the rules once. Not a cached property, since it may run on another thread, where
        a cached property would lock the whole class.
        """
        if self._rule_set is not None:
            return
        schema = self._load_schema()
        if schema.rule_sets is not None:  # compiled for another kind with this schema
            self._rule_set = schema.rule_sets
            return
        if not has_rules(schema.source):
            self._rule_set = schema.rule_sets = ()
            return
        from kilonova.local.apiserver.schema.cel import CompileError, rule_set

        try:
            compiled = rule_set(schema)
        except CompileError as error:
            # The definition was accepted by an earlier version of the server.
            self._rule_set = internal(f"rules of {self._kind} {self._version}: {error}")
        else:
            self._rule_set = schema.rule_sets = () if compiled is None else (compiled,)

    def set_defaults(self, obj: JsonObject) -> None:
        self._checker.default(obj)

    def upgrade_stored(self, obj: JsonObject) -> None:
        """Prune fields that the schema no longer has, and apply its new defaults."""
        self._checker.conform(obj, self._kind, self._version)
        self._checker.default(obj)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Validate a new object. An object with a resourceVersion exists: `validate_update`
        validates it, since its errors may be older than the update.
        """
        return self._validate_schema_and_rules(obj, None) if _is_new(obj) else []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return self._validate_schema_and_rules(new, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        if not _is_new(obj):
            return []
        names = sorted(nested_strings(obj, "metadata", "finalizers"))
        return [warning for name in names for warning in _finalizer_warnings(name)]

    def _validate_schema_and_rules(
        self, obj: JsonObject, old: JsonObject | None
    ) -> list[FieldError]:
        problems = self._checker.validate(obj, old)
        if self._scale is not None:
            problems += self._scale.validate(obj)
        self.compile_rules()
        if isinstance(self._rule_set, ApiError):
            raise self._rule_set
        if not self._rule_set:
            return problems
        if any(problem.reason in _BLOCKING_REASONS for problem in problems):
            detail = (
                "some validation rules were not checked because the object was invalid; correct "
                "the existing errors to complete validation"
            )
            return [*problems, invalid_value("<nil>", None, detail)]
        return problems + self._rule_set[0].check(obj, old)


def _is_new(obj: JsonObject) -> bool:
    return not obj["metadata"].get("resourceVersion")


def _finalizer_warnings(name: str) -> list[str]:
    prefix = f'metadata.finalizers: "{name}"'
    if error := qualified_name_error(name):
        return [f"{prefix}: {error}"]
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    path = " including a path (/)" if "." in name else ""
    return [
        f"{prefix}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
        "with other finalizer writers"
    ]
