"""How objects of a custom kind behave."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kilonova.api.json import JsonObject
from kilonova.local.customresources.columns import printed_columns, selectable_fields
from kilonova.local.customresources.scale import CustomScale
from kilonova.local.customresources.version import MANY_RULES, has_rules, rule_count
from kilonova.local.errors import ApiError, Problem, internal, invalid_value
from kilonova.local.kinds.base import Behavior
from kilonova.local.kinds.walk import objects, part, strings
from kilonova.local.names import qualified_name
from kilonova.local.schema.check import Checker, checker
from kilonova.local.schema.node import Schema

if TYPE_CHECKING:
    from kilonova.local.schema.cel import RuleSet

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Problems of an object whose rules are not run, since they could not trust its shape."""

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


class CustomBehavior(Behavior):
    """One version of a custom kind. Schema and rules are compiled when first needed."""

    has_generation = True
    unconditional_update = False

    def __init__(
        self,
        version: JsonObject,
        kind: str,
        load_schema: Callable[[], Schema],
        scale: CustomScale | None,
    ) -> None:
        self._kind = kind
        self._version: str = version["name"]
        self._load_schema = load_schema
        self._scale = scale
        self._rules: tuple[RuleSet, ...] | ApiError | None = None
        self.columns = printed_columns(objects(version, "additionalPrinterColumns"))
        self.selectable = selectable_fields(objects(version, "selectableFields"))
        self.status_by_subresource = "status" in part(version, "subresources")

    @cached_property
    def _checker(self) -> Checker:
        return checker(self._load_schema())

    @property
    def is_slow_to_compile(self) -> bool:
        """Whether `compile` is still to be done, and takes long."""
        return self._rules is None and rule_count(self._load_schema().source) >= MANY_RULES

    def prepare_rules(self, obj: JsonObject) -> None:
        """Compile what is needed to validate `obj`, and all rules: for another thread."""
        self._checker.validate(obj)
        self.compile()

    def compile(self) -> None:
        """Compile the rules, if that is still to be done. May be called on another thread, which
        is why no cached property has them: it would lock all others of the class out."""
        if self._rules is not None:
            return
        schema = self._load_schema()
        if not has_rules(schema.source):
            self._rules = ()
            return
        from kilonova.local.schema.cel import CompileError, rule_set

        try:
            compiled = rule_set(schema)
        except CompileError as error:
            # A definition that was taken by an earlier version of the server.
            self._rules = internal(f"rules of {self._kind} {self._version}: {error}")
        else:
            self._rules = () if compiled is None else (compiled,)

    def fill(self, obj: JsonObject) -> None:
        self._checker.default(obj)

    def refresh(self, obj: JsonObject) -> None:
        """Fields that the schema no longer has go, defaults that it has come in."""
        self._checker.admit(obj, self._kind, self._version)
        self._checker.default(obj)

    def validate(self, obj: JsonObject) -> list[Problem]:
        """Of a new object. One that has a resourceVersion exists: `validate_update` judges it,
        since what is wrong with it may have been so before."""
        return self._problems(obj, None) if _is_new(obj) else []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return self._problems(new, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        if not _is_new(obj):
            return []
        names = sorted(strings(obj, "metadata", "finalizers"))
        return [warning for name in names for warning in _finalizer_warnings(name)]

    def _problems(self, obj: JsonObject, old: JsonObject | None) -> list[Problem]:
        problems = self._checker.validate(obj, old)
        if self._scale is not None:
            problems += self._scale.problems(obj)
        self.compile()
        if isinstance(self._rules, ApiError):
            raise self._rules
        if not self._rules:
            return problems
        if any(problem.reason in _BLOCKING for problem in problems):
            detail = (
                "some validation rules were not checked because the object was invalid; correct "
                "the existing errors to complete validation"
            )
            return [*problems, invalid_value("<nil>", None, detail)]
        return problems + self._rules[0].check(obj, old)


def _is_new(obj: JsonObject) -> bool:
    return not obj["metadata"].get("resourceVersion")


def _finalizer_warnings(name: str) -> list[str]:
    shown = f'metadata.finalizers: "{name}"'
    if trouble := qualified_name(name):
        return [f"{shown}: {trouble}"]
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    path = " including a path (/)" if "." in name else ""
    return [
        f"{shown}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
        "with other finalizer writers"
    ]
