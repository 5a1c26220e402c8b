"""`x-kubernetes-validations`: the rules of a schema, compiled once and evaluated on every write.

In a rule, `self` is the value that its schema describes, and on an update `oldSelf` is the previous
value, if it can be correlated: in list items only if the list has keys. A rule that uses `oldSelf`
is skipped without one, unless it sets `optionalOldSelf`. A rule that fails on an unchanged value is
a warning instead of an error (ratcheting), so that a new rule does not block updates of existing
objects.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.cel.environment import OLD_SELF, CompileError, Environment, EvaluationError, Program
from kilonova.cel.types import CelType, optional_of
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    forbidden_value,
    invalid_value,
    required_value,
)
from kilonova.local.apiserver.schema.cel.environment import environment
from kilonova.local.apiserver.schema.cel.field_paths import PathError, resolve_path
from kilonova.local.apiserver.schema.cel.schema_types import (
    ConverterCache,
    ValueConverter,
    cel_type_of,
    converter,
)
from kilonova.local.apiserver.schema.node import Schema

EXTENSION = "x-kubernetes-validations"

_MESSAGE_LIMIT = 5 * 1024
_TIME_LIMIT = 2.0
"""The CPU time limit of all rules on one object, in seconds."""
_ABSENT: Any = object()


class RuleSet:
    """All rules of a schema. Has no state; may be shared."""

    def __init__(self, root: RuleNode) -> None:
        self._root = root

    def check(
        self, new: JsonObject, old: JsonObject | None = None, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """Evaluate the rules on an object, or on its update from `old`.

        Failures that an update inherited from `old` are added to `warnings`.
        """
        run = _RuleRun(warnings if warnings is not None else [])
        previous = _ABSENT if old is None else old
        run.visit(self._root, "", new, previous, (new, previous))
        return run.problems


@dataclass(slots=True)
class RuleNode:
    """The rules of a schema node, and the nodes below that have rules."""

    schema: Schema
    converter: ValueConverter | None
    rules: list[CompiledRule] = field(default_factory=list["CompiledRule"])
    optional_rules: list[CompiledRule] = field(default_factory=list["CompiledRule"])
    """Rules with optionalOldSelf."""
    properties: dict[str, RuleNode] = field(default_factory=dict[str, "RuleNode"])
    additional: RuleNode | None = None
    items: RuleNode | None = None

    @property
    def is_empty(self) -> bool:
        return not (
            self.rules or self.optional_rules or self.properties or self.additional or self.items
        )


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One compiled rule with its source."""

    program: Program
    source: JsonObject
    message_program: Program | None
    field_path: str

    @property
    def uses_old(self) -> bool:
        return OLD_SELF in self.program.names

    @property
    def text(self) -> str:
        """The rule in messages."""
        return (self.source.get("message") or self.source["rule"]).strip()


def rule_set(schema: Schema) -> RuleSet | None:
    """The rules of a resource's schema, or None if it has none. Raises `CompileError`."""
    node = _compile_node(schema, True, {})
    return None if node is None else RuleSet(node)


def compile_rule(source: JsonObject, schema: Schema, root: bool) -> CompiledRule:
    """Compile one rule of `schema`. Raises `CompileError` with Kubernetes' message."""
    optional = bool(source.get("optionalOldSelf"))
    self_type = cel_type_of(schema, root)
    if self_type is None:
        raise CompileError("rules are not supported on a value without a type")
    types: dict[str, CelType] = {
        "self": self_type,
        OLD_SELF: optional_of(self_type) if optional else self_type,
    }
    compiler = _rule_environment(optional)
    try:
        program = compiler.compile(source["rule"], types)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if program.type.name not in ("bool", "dyn"):
        raise CompileError("cel expression must evaluate to a bool")
    return CompiledRule(
        program, source, _compile_message(source, types), _resolve_field_path(source, schema)
    )


def _rule_environment(optional_old_self: bool) -> Environment:
    return environment(("self", OLD_SELF), optional_old_self=optional_old_self)


class MessageError(CompileError):
    """An invalid `messageExpression`."""


def _compile_message(source: JsonObject, types: dict[str, CelType]) -> Program | None:
    text = source.get("messageExpression")
    if not text:
        return None
    try:
        program = _rule_environment(bool(source.get("optionalOldSelf"))).compile(text, types)
    except CompileError as error:
        raise MessageError(f"messageExpression compilation failed: {error}") from None
    if program.type.name not in ("string", "dyn"):
        raise MessageError("messageExpression must evaluate to a string")
    return program


def _resolve_field_path(source: JsonObject, schema: Schema) -> str:
    try:
        return resolve_path(source.get("fieldPath", ""), schema)[0]
    except PathError:
        return ""


def _compile_node(schema: Schema, root: bool, cache: ConverterCache) -> RuleNode | None:
    node = RuleNode(schema, None)
    for source in rule_sources(schema):
        if not source["rule"].strip():
            continue
        rule = compile_rule(source, schema, root)
        (node.optional_rules if source.get("optionalOldSelf") else node.rules).append(rule)
    for name, child in schema.properties.items():
        if child_node := _compile_node(child, child.embedded_resource, cache):
            node.properties[name] = child_node
    if schema.additional is not None:
        node.additional = _compile_node(
            schema.additional, schema.additional.embedded_resource, cache
        )
    if schema.items is not None:
        node.items = _compile_node(schema.items, schema.items.embedded_resource, cache)
    if node.is_empty:
        return None
    if node.rules or node.optional_rules:
        node.converter = converter(schema, root, cache)
    return node


def rule_sources(schema: Schema) -> list[JsonObject]:
    """The rules of a schema node, including those in its `allOf`."""
    sources: list[JsonObject] = list(schema.source.get(EXTENSION) or ())
    for part in schema.source.get("allOf") or ():
        sources += part.get(EXTENSION) or ()
    return sources


class _RuleRun:
    """One check of one object."""

    def __init__(self, warnings: list[str]) -> None:
        self.problems: list[FieldError] = []
        self._warnings = warnings
        self._is_stopped = False
        self._deadline = time.thread_time() + _TIME_LIMIT

    def visit(
        self, node: RuleNode, path: str, new: Any, old: Any, compared: tuple[Any, Any]
    ) -> None:
        """`compared` is the nearest enclosing value with a counterpart in the old object."""
        if new is None or self._is_stopped:
            return
        if old is None:
            old = _ABSENT
        if old is not _ABSENT:
            compared = (new, old)
        if node.rules:
            self._run_rules(node, node.rules, False, path, new, old, compared)
        if node.optional_rules:
            self._run_rules(node, node.optional_rules, True, path, new, old, compared)
        if isinstance(new, dict):
            self._visit_object(node, path, cast(JsonObject, new), old, compared)
        elif isinstance(new, list) and node.items is not None:
            counterpart = _old_items_by_key(node.schema, old)
            for index, item in enumerate(cast(list[Any], new)):
                before = (
                    counterpart.get(_item_key(node.schema, item), _ABSENT)
                    if counterpart
                    else _ABSENT
                )
                self.visit(node.items, f"{path}[{index}]", item, before, compared)

    def _visit_object(
        self, node: RuleNode, path: str, new: JsonObject, old: Any, compared: tuple[Any, Any]
    ) -> None:
        previous = cast(JsonObject, old) if isinstance(old, dict) else {}
        if node.additional is not None:
            for name, value in new.items():
                child_path = f"{path}[{name}]"
                self.visit(
                    node.additional, child_path, value, previous.get(name, _ABSENT), compared
                )
        for name, child in node.properties.items():
            if name in new:
                child_path = f"{path}.{name}" if path else name
                self.visit(child, child_path, new[name], previous.get(name, _ABSENT), compared)

    def _run_rules(
        self,
        node: RuleNode,
        rules: list[CompiledRule],
        optional: bool,
        path: str,
        new: Any,
        old: Any,
        compared: tuple[Any, Any],
    ) -> None:
        has_old = old is not _ABSENT
        convert = node.converter
        self_value, old_value = new, old if has_old else None
        if convert is not None:
            self_value = convert(new)
            old_value = convert(old) if has_old else None
        activation: Any = None
        for rule in rules:
            if rule.uses_old and not has_old and not optional:
                continue
            if activation is None:
                compiler = _rule_environment(optional)
                activation = compiler.bind_self(self_value, old_value, has_old)
            try:
                passed = rule.program.run(activation)
            except EvaluationError as error:
                self.problems.append(_evaluation_error(rule, node.schema, path, error))
                if error.exhausted:
                    self._is_stopped = True
                    return
                continue
            if time.thread_time() > self._deadline:
                self._is_stopped = True
                detail = (
                    "validation failed due to running out of cost budget, no further validation "
                    "rules will be run"
                )
                self.problems.append(invalid_value(path or "<nil>", node.schema.type, detail))
                return
            if passed is True:
                continue
            problem = _rule_violation(
                rule, node.schema, path, new, _failure_detail(rule, activation)
            )
            if rule.uses_old or compared[1] is _ABSENT or compared[0] != compared[1]:
                self.problems.append(problem)
            else:
                self._warnings.append(str(problem))


def _evaluation_error(
    rule: CompiledRule, schema: Schema, path: str, error: EvaluationError
) -> FieldError:
    if error.exhausted:
        detail = (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {rule.text}"
        )
    elif str(error) == "no such overload":
        detail = (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.text}"
        )
    else:
        detail = f"{error} evaluating rule: {rule.text}"
    return invalid_value(path or "<nil>", schema.type, detail)


def _failure_detail(rule: CompiledRule, activation: Any) -> str:
    """The error message, from the rule's author if there is one."""
    if rule.message_program is not None:
        try:
            message = str(rule.message_program.run(activation)).strip()
        except EvaluationError:
            message = ""
        if message and "\n" not in message and len(message.encode()) <= _MESSAGE_LIMIT:
            return message
    if rule.source.get("message"):
        return rule.text
    return f"failed rule: {rule.text}"


def _rule_violation(
    rule: CompiledRule, schema: Schema, path: str, value: Any, detail: str
) -> FieldError:
    if rule.field_path:
        separator = "." if path and not rule.field_path.startswith("[") else ""
        path = f"{path}{separator}{rule.field_path}"
    path = path or "<nil>"
    composite = schema.type in ("object", "array")
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden_value(path, detail)
        case "FieldValueRequired":
            return required_value(path, detail)
        case "FieldValueDuplicate":
            if composite:
                return FieldError(path, "FieldValueDuplicate", "Duplicate value")
            return duplicate_value(path, value)
        case _:
            if composite:
                return FieldError(path, "FieldValueInvalid", f"Invalid value: {detail}")
            return invalid_value(path, value, detail)


def _old_items_by_key(schema: Schema, old: Any) -> dict[Any, Any]:
    """The old items of a list with keys, by key; the first of each key counts."""
    items: dict[Any, Any] = {}
    if schema.list_type == "map" and isinstance(old, list):
        for item in cast(list[Any], old):
            key = _item_key(schema, item)
            if key is not None:
                items.setdefault(key, item)
    return items


def _item_key(schema: Schema, item: Any) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    entry = cast(JsonObject, item)
    values = [entry.get(name) for name in schema.list_map_keys]
    if not all(isinstance(value, str | int | float) for value in values):
        return None
    # True and 1 are the same dictionary key in Python.
    return tuple((type(value), value) for value in values)
