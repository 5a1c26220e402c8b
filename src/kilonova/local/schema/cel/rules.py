"""`x-kubernetes-validations`: the rules of a schema, compiled once and run on every write.

A rule sees the value that its schema describes as `self`, and on an update what stood in its
place before as `oldSelf`, where that can be told: in items of lists only if the list has keys.
A rule that uses `oldSelf` does not run where there is none, unless it says `optionalOldSelf`.
A rule that fails on a value that did not change is a warning and not an error, so that a new
rule does not lock up old objects.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, forbidden_field, invalid_value, required
from kilonova.local.schema.cel.environment import (
    OLD_SELF,
    CompileError,
    EvaluationError,
    Program,
    environment,
)
from kilonova.local.schema.cel.paths import PathError, resolve_path
from kilonova.local.schema.cel.types import CelType, Convert, Known, converter, optional_of, type_of
from kilonova.local.schema.node import Schema

EXTENSION = "x-kubernetes-validations"

_MESSAGE_LIMIT = 5 * 1024
_SECONDS = 2.0
"""What all rules on one object may take of the thread's time."""
_ABSENT: Any = object()


class RuleSet:
    """All rules of a schema. Holds no state of a check; safe to share."""

    def __init__(self, root: RuleNode) -> None:
        self._root = root

    def check(
        self, new: JsonObject, old: JsonObject | None = None, warnings: list[str] | None = None
    ) -> list[Problem]:
        """Run the rules on an object, or on its change from `old`.

        Failures that an update inherited from `old` are added to `warnings`.
        """
        run = _Run(warnings if warnings is not None else [])
        previous = _ABSENT if old is None else old
        run.visit(self._root, "", new, previous, (new, previous))
        return run.problems


@dataclass(slots=True)
class RuleNode:
    """The rules at one place of a schema, and the places below that have some."""

    schema: Schema
    convert: Convert | None
    rules: list[Rule] = field(default_factory=list["Rule"])
    optional_rules: list[Rule] = field(default_factory=list["Rule"])  # with optionalOldSelf
    properties: dict[str, RuleNode] = field(default_factory=dict[str, "RuleNode"])
    additional: RuleNode | None = None
    items: RuleNode | None = None

    @property
    def is_empty(self) -> bool:
        return not (
            self.rules or self.optional_rules or self.properties or self.additional or self.items
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule, as it was written and as it runs."""

    program: Program
    source: JsonObject
    message_program: Program | None
    field_path: str

    @property
    def uses_old(self) -> bool:
        return OLD_SELF in self.program.names

    @property
    def text(self) -> str:
        """What stands for the rule in messages."""
        return (self.source.get("message") or self.source["rule"]).strip()


def rule_set(schema: Schema) -> RuleSet | None:
    """The rules of a resource's schema, or None where it has none. Raises `CompileError`."""
    node = _node(schema, True, {})
    return None if node is None else RuleSet(node)


def compile_rule(source: JsonObject, schema: Schema, root: bool) -> Rule:
    """Compile one rule of `schema`. Raises `CompileError` with what Kubernetes would say."""
    optional = bool(source.get("optionalOldSelf"))
    self_type = type_of(schema, root)
    if self_type is None:
        raise CompileError("the type of the value is not known to rules")
    types: dict[str, CelType] = {
        "self": self_type,
        OLD_SELF: optional_of(self_type) if optional else self_type,
    }
    compiler = environment(("self", OLD_SELF), optional)
    try:
        program = compiler.compile(source["rule"], types)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}") from None
    if program.type.name not in ("bool", "dyn"):
        raise CompileError("cel expression must evaluate to a bool")
    return Rule(program, source, _message_program(source, types), _field_path(source, schema))


class MessageError(CompileError):
    """A `messageExpression` that is wrong."""


def _message_program(source: JsonObject, types: dict[str, CelType]) -> Program | None:
    text = source.get("messageExpression")
    if not text:
        return None
    try:
        program = environment(("self", OLD_SELF), bool(source.get("optionalOldSelf"))).compile(
            text, types
        )
    except CompileError as error:
        raise MessageError(f"messageExpression compilation failed: {error}") from None
    if program.type.name not in ("string", "dyn"):
        raise MessageError("messageExpression must evaluate to a string")
    return program


def _field_path(source: JsonObject, schema: Schema) -> str:
    try:
        return resolve_path(source.get("fieldPath", ""), schema)[0]
    except PathError:
        return ""


def _node(schema: Schema, root: bool, known: Known) -> RuleNode | None:
    node = RuleNode(schema, None)
    for source in sources(schema):
        if not source["rule"].strip():
            continue
        rule = compile_rule(source, schema, root)
        (node.optional_rules if source.get("optionalOldSelf") else node.rules).append(rule)
    for name, child in schema.properties.items():
        if below := _node(child, child.embedded_resource, known):
            node.properties[name] = below
    if schema.additional is not None:
        node.additional = _node(schema.additional, schema.additional.embedded_resource, known)
    if schema.items is not None:
        node.items = _node(schema.items, schema.items.embedded_resource, known)
    if node.is_empty:
        return None
    if node.rules or node.optional_rules:
        node.convert = converter(schema, root, known)
    return node


def sources(schema: Schema) -> list[JsonObject]:
    """The rules written at a schema, also those inside its `allOf`."""
    written: list[JsonObject] = list(schema.source.get(EXTENSION) or ())
    for part in schema.source.get("allOf") or ():
        written += part.get(EXTENSION) or ()
    return written


class _Run:
    """One check of one object."""

    def __init__(self, warnings: list[str]) -> None:
        self.problems: list[Problem] = []
        self._warnings = warnings
        self._stopped = False
        self._deadline = time.thread_time() + _SECONDS

    def visit(
        self, node: RuleNode, path: str, new: Any, old: Any, compared: tuple[Any, Any]
    ) -> None:
        """`compared` is the nearest place with a counterpart in the old object."""
        if new is None or self._stopped:
            return
        if old is None:
            old = _ABSENT
        if old is not _ABSENT:
            compared = (new, old)
        if node.rules:
            self._apply(node, node.rules, False, path, new, old, compared)
        if node.optional_rules:
            self._apply(node, node.optional_rules, True, path, new, old, compared)
        if isinstance(new, dict):
            self._visit_object(node, path, cast(JsonObject, new), old, compared)
        elif isinstance(new, list) and node.items is not None:
            counterpart = _counterparts(node.schema, old)
            for index, item in enumerate(cast(list[Any], new)):
                before = (
                    counterpart.get(_key(node.schema, item), _ABSENT) if counterpart else _ABSENT
                )
                self.visit(node.items, f"{path}[{index}]", item, before, compared)

    def _visit_object(
        self, node: RuleNode, path: str, new: JsonObject, old: Any, compared: tuple[Any, Any]
    ) -> None:
        previous = cast(JsonObject, old) if isinstance(old, dict) else {}
        if node.additional is not None:
            for name, value in new.items():
                below = f"{path}[{name}]"
                self.visit(node.additional, below, value, previous.get(name, _ABSENT), compared)
        for name, child in node.properties.items():
            if name in new:
                below = f"{path}.{name}" if path else name
                self.visit(child, below, new[name], previous.get(name, _ABSENT), compared)

    def _apply(
        self,
        node: RuleNode,
        rules: list[Rule],
        optional: bool,
        path: str,
        new: Any,
        old: Any,
        compared: tuple[Any, Any],
    ) -> None:
        has_old = old is not _ABSENT
        convert = node.convert
        self_value, old_value = new, old if has_old else None
        if convert is not None:
            self_value = convert(new)
            old_value = convert(old) if has_old else None
        activation: Any = None
        for rule in rules:
            if rule.uses_old and not has_old and not optional:
                continue
            if activation is None:
                compiler = environment(("self", OLD_SELF), optional)
                activation = compiler.bind_self(self_value, old_value, has_old)
            try:
                passed = rule.program.run(activation)
            except EvaluationError as error:
                self.problems.append(_broken(rule, node.schema, path, error))
                if error.exhausted:
                    self._stopped = True
                    return
                continue
            if time.thread_time() > self._deadline:
                self._stopped = True
                detail = (
                    "validation failed due to running out of cost budget, no further validation "
                    "rules will be run"
                )
                self.problems.append(invalid_value(path or "<nil>", node.schema.type, detail))
                return
            if passed is True:
                continue
            problem = _failed(rule, node.schema, path, new, _detail(rule, activation))
            if rule.uses_old or compared[1] is _ABSENT or compared[0] != compared[1]:
                self.problems.append(problem)
            else:
                self._warnings.append(str(problem))


def _broken(rule: Rule, schema: Schema, path: str, error: EvaluationError) -> Problem:
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


def _detail(rule: Rule, activation: Any) -> str:
    """What is wrong, in the words of the rule's author if there are any."""
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


def _failed(rule: Rule, schema: Schema, path: str, value: Any, detail: str) -> Problem:
    if rule.field_path:
        joint = "." if path and not rule.field_path.startswith("[") else ""
        path = f"{path}{joint}{rule.field_path}"
    path = path or "<nil>"
    composite = schema.type in ("object", "array")
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden_field(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            if composite:
                return Problem(path, "FieldValueDuplicate", "Duplicate value")
            return duplicate(path, value)
        case _:
            if composite:
                return Problem(path, "FieldValueInvalid", f"Invalid value: {detail}")
            return invalid_value(path, value, detail)


def _counterparts(schema: Schema, old: Any) -> dict[Any, Any]:
    """The old items of a list with keys, by their keys; the first of each counts."""
    items: dict[Any, Any] = {}
    if schema.list_type == "map" and isinstance(old, list):
        for item in cast(list[Any], old):
            key = _key(schema, item)
            if key is not None:
                items.setdefault(key, item)
    return items


def _key(schema: Schema, item: Any) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    entry = cast(JsonObject, item)
    values = [entry.get(name) for name in schema.list_map_keys]
    if not all(isinstance(value, str | int | float) for value in values):
        return None
    # True and 1 are one key to Python.
    return tuple((type(value), value) for value in values)
